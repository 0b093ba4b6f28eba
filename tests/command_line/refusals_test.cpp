// A wrong request ends with exit code 2, one line that names the thing, and nothing written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> named;  // in the message
};

void PrintTo(const Refusal& test, std::ostream* stream) { *stream << test.name; }

std::vector<std::string> generate(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"generate", "--model", kLlama, "--prompt-ids", "1,60"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class Refusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refusals, NamesTheThing) {
  const Finished run = kvlab(GetParam().arguments);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err.rfind("kvlab: ", 0), 0U) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  for (const std::string& word : GetParam().named) EXPECT_THAT(run.err, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    CommandLine, Refusals,
    ::testing::Values(
        Refusal{"NoCommand", {}, {"subcommand"}},
        Refusal{"UnknownCommand", {"generat"}, {"generat", "generate", "sweep"}},
        Refusal{"NoModel", {"generate", "--prompt", "x"}, {"--model"}},
        Refusal{"UnknownFlag", generate({"--bogus"}), {"--bogus"}},
        Refusal{"FlagTwice", generate({"--top-k", "1", "--top-k", "2"}), {"--top-k"}},
        Refusal{"SwitchTwice", generate({"--ignore-eos", "--ignore-eos"}), {"--ignore-eos"}},
        Refusal{"MissingFile", {"generate", "--model", "no/such.gguf", "--prompt-ids", "1"}, {"no/such.gguf"}},
        Refusal{"UnknownVariant", generate({"--cache", "ring"}), {"cache", "ring", "contiguous", "paged"}},
        Refusal{"PageSizeBeyondEveryContext", generate({"--page-size", "131073"}), {"page_size", "131073", "131072"}},
        Refusal{"PageSizeZero", generate({"--page-size", "0"}), {"page_size", "0"}},
        Refusal{"HeadsThatDoNotFit", generate({"--heads", "gqa:4"}), {"gqa:4", "6", "2"}},
        Refusal{"Cuda", generate({"--device", "cuda"}), {"--device", "CUDA"}},
        Refusal{"UnknownDevice", generate({"--device", "tpu"}), {"--device", "tpu", "cpu"}},
        Refusal{"NoThreads", generate({"--threads", "0"}), {"--threads", "0"}},
        Refusal{"IdOutsideVocabulary", {"generate", "--model", kLlama, "--prompt-ids", "1,320"}, {"320", "319"}},
        Refusal{"IdNegative", {"generate", "--model", kLlama, "--prompt-ids", "1,-2"}, {"--prompt-ids", "-2"}},
        Refusal{"IdsTrailingComma", {"generate", "--model", kLlama, "--prompt-ids", "1,"}, {"--prompt-ids"}},
        Refusal{"NoPrompt", {"generate", "--model", kLlama}, {"--prompt", "--prompt-ids"}},
        Refusal{"TwoPrompts", generate({"--prompt", "x"}), {"--prompt", "--prompt-ids"}},
        Refusal{
            "TextWithoutTokenizer", {"generate", "--model", kLlama, "--prompt", "x"}, {"tokenizer", "--prompt-ids"}},
        Refusal{"StopWithoutTokenizer", generate({"--stop", "x"}), {"--stop", "tokenizer"}},
        Refusal{"ChatWithIds", generate({"--chat"}), {"--chat", "--prompt-ids"}},
        Refusal{"UnwritableJson", generate({"--json", "/no/such/folder/x.json"}), {"--json", "/no/such/folder/x.json"}},
        Refusal{"UnwritableLogits", generate({"--logits-out", "/no/such/x"}), {"--logits-out", "/no/such/x"}},
        Refusal{"CapacityBelowPrompt", generate({"--kv-capacity", "1"}), {"1", "2"}},
        Refusal{"ScoreOneToken", {"score", "--model", kLlama, "--prompt-ids", "1"}, {"2 tokens", "1"}},
        Refusal{"ScoreNothing", {"score", "--model", kLlama}, {"--text", "--prompt-ids"}},
        Refusal{"RunPastContext",
                {"run", "--model", kLlama, "--prompt-tokens", "500", "--gen-tokens", "14"},
                {"513", "512"}},
        Refusal{"RunNoPrompt",
                {"run", "--model", kLlama, "--prompt-tokens", "0", "--gen-tokens", "4"},
                {"--prompt-tokens"}},
        Refusal{"VerifyPastContext", {"verify", "--model", kLlama, "--prompt-tokens", "510"}, {"518", "512"}},
        Refusal{"TokenizeWithoutTokenizer", {"tokenize", "--model", kLlama, "x"}, {"tokenizer"}},
        Refusal{"ListWhat", {"list", "things"}, {"things", "models"}},
        Refusal{"TraceFormat", {"trace", "--model", kLlama, "--prompt-ids", "1", "--format", "svg"}, {"svg", "dot"}},
        Refusal{"SweepMissing", {"sweep", "no-such.json", "--out", "x"}, {"no-such.json"}}),
    [](const auto& test) { return test.param.name; });

struct BadNumber {
  std::string name;
  std::string flag;
  std::string value;
};

void PrintTo(const BadNumber& test, std::ostream* stream) { *stream << test.name; }

class BadNumbers : public ::testing::TestWithParam<BadNumber> {};

TEST_P(BadNumbers, AreRefusedWithTheFlag) {
  const Finished run = kvlab(generate({GetParam().flag, GetParam().value}));
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr(GetParam().flag));
}

INSTANTIATE_TEST_SUITE_P(
    CommandLine, BadNumbers,
    ::testing::Values(
        BadNumber{"TopKNegative", "--top-k", "-1"}, BadNumber{"TopKOverflow", "--top-k", "100000000000000000000"},
        BadNumber{"TopKJunk", "--top-k", "5x"}, BadNumber{"TopKEmpty", "--top-k", ""},
        BadNumber{"TopKFraction", "--top-k", "1.5"}, BadNumber{"TopKNan", "--top-k", "nan"},
        BadNumber{"TemperatureNan", "--temperature", "nan"}, BadNumber{"TemperatureInfinite", "--temperature", "inf"},
        BadNumber{"TemperatureNegative", "--temperature", "-0.1"},
        BadNumber{"TemperatureOverflow", "--temperature", "1e999"}, BadNumber{"TopPAboveOne", "--top-p", "1.01"},
        BadNumber{"SeedNegative", "--seed", "-1"}, BadNumber{"SeedOverflow", "--seed", "100000000000000000000"},
        BadNumber{"TokensNegative", "--max-new-tokens", "-5"}, BadNumber{"PageSizeNegative", "--page-size", "-16"},
        BadNumber{"AtUnknown", "--at", "3:beam=2"}, BadNumber{"AtNoStep", "--at", "temperature=1"},
        BadNumber{"AtNegative", "--at", "-1:top-k=1"}, BadNumber{"AtNan", "--at", "3:temperature=nan"}),
    [](const auto& test) { return test.param.name; });

TEST(CommandLine, HelpTeachesAndEndsWithZero) {
  for (const std::string command :
       {"generate", "score", "run", "sweep", "verify", "trace", "plan", "tokenize", "list", "ceilings"}) {
    const Finished help = kvlab({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("kvlab " + command)) << "an example is missing";
  }
  EXPECT_THAT(kvlab({"generate", "--help"}).out, HasSubstr("pages from a shared pool"));
  EXPECT_EQ(kvlab({"--version"}).exit_code, 0);
}

TEST(CommandLine, PromptMayReachTheContextButNotPassIt) {
  for (const int length : {511, 512, 513}) {
    const Finished run = kvlab({"generate", "--model", kLlama, "--prompt-ids",
                                joined(std::vector<int>(static_cast<std::size_t>(length), 7)), "--max-new-tokens", "4",
                                "--ignore-eos", "--json", "-"});
    if (length <= 512) {
      ASSERT_EQ(run.exit_code, 0) << run.err;
      EXPECT_EQ(run.json()["stop_reason"], "context_full");
    } else {
      EXPECT_EQ(run.exit_code, 2);
      EXPECT_THAT(run.err, HasSubstr("513"));
      EXPECT_THAT(run.err, HasSubstr("512"));
    }
  }
}

}  // namespace
}  // namespace kvlab::testing
