// Sweep files: what is accepted, what is refused and with which words, and the cases that come out.
#include "harness/sweep_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/error.h"
#include "tests/command_line/binary.h"

namespace kvlab {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

Json small() {
  return Json::parse(R"({"name": "small", "models": ["m"],
    "axes": {"cache": ["none", "contiguous"], "attention": ["naive", "fused"], "prompt_tokens": [4, 8], "gen_tokens": [2]}})");
}

std::vector<Case> cases_of(const Json& json, const std::vector<std::string>& filters = {}) {
  return sweep_cases(parse_sweep_config(json, "s.json"), parse_filters(filters), "cpu", 1);
}

std::string refusal(const Json& json) {
  try {
    cases_of(json);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(SweepConfig, MultipliesTheAxesWithTheFirstSlowest) {
  const std::vector<Case> cases = cases_of(small());
  ASSERT_EQ(cases.size(), 8U);
  EXPECT_EQ(cases[0].variant.cache, CacheKind::none);
  EXPECT_EQ(cases[0].workload.prompt_tokens, 4);
  EXPECT_EQ(cases[1].workload.prompt_tokens, 8);
  EXPECT_EQ(cases[2].variant.decode_attention, AttentionKind::fused);
  EXPECT_EQ(cases[4].variant.cache, CacheKind::contiguous);
}

TEST(SweepConfig, RangesMultiplyOrAdd) {
  Json json = small();
  json["axes"]["prompt_tokens"] = Json::parse(R"({"from": 512, "to": 32768, "times": 2})");
  json["axes"]["gen_tokens"] = Json::parse(R"({"from": 1, "to": 10, "step": 4})");
  const SweepConfig config = parse_sweep_config(json, "s.json");
  EXPECT_EQ(config.axes[2].values, (std::vector<std::string>{"512", "1024", "2048", "4096", "8192", "16384", "32768"}));
  EXPECT_EQ(config.axes[3].values, (std::vector<std::string>{"1", "5", "9"}));
}

TEST(SweepConfig, ExcludeDropsMatchingCases) {
  Json json = small();
  json["exclude"] =
      Json::parse(R"([{"cache": "none", "prompt_tokens": 8}, {"attention": "naive", "cache": "contiguous"}])");
  const std::vector<Case> cases = cases_of(json);
  EXPECT_EQ(cases.size(), 4U);
  for (const Case& spec : cases) {
    EXPECT_FALSE(spec.variant.cache == CacheKind::none && spec.workload.prompt_tokens == 8);
    EXPECT_FALSE(spec.variant.cache == CacheKind::contiguous && spec.variant.decode_attention == AttentionKind::naive);
  }
}

TEST(SweepConfig, FiltersOfOneAxisAddUpAndOfTwoAxesNarrow) {
  EXPECT_EQ(cases_of(small(), {"cache=none"}).size(), 4U);
  EXPECT_EQ(cases_of(small(), {"cache=none", "cache=contiguous"}).size(), 8U);
  EXPECT_EQ(cases_of(small(), {"cache=none", "prompt_tokens=8"}).size(), 2U);
  EXPECT_EQ(cases_of(small(), {"model=m"}).size(), 8U);
  EXPECT_THROW(cases_of(small(), {"model=other"}), InputError);
  EXPECT_THROW(cases_of(small(), {"cache=ring"}), InputError);
  EXPECT_THROW(cases_of(small(), {"colour=red"}), InputError);
  EXPECT_THROW(cases_of(small(), {"cache"}), InputError);
}

TEST(SweepConfig, CasesThatDifferOnlyInWhatTheyDoNotUseAreOne) {
  Json json = small();
  json["axes"] =
      Json::parse(R"({"cache": ["none", "contiguous", "paged"], "page_size": [8, 16], "kv_dtype": ["f32", "bf16"],
                                 "prompt_tokens": [4], "gen_tokens": [2]})");
  EXPECT_EQ(cases_of(json).size(), 1U + 2U + 4U);
}

TEST(SweepConfig, RoundsHaveDefaults) {
  Json json = small();
  json["rounds"] = Json::parse(R"({"min": 50})");
  const RoundPolicy policy = parse_sweep_config(json, "s.json").rounds;
  EXPECT_EQ(policy.min, 50);
  EXPECT_GE(policy.max, policy.min);
}

struct Fault {
  std::string name;
  std::string pointer;  // where the value is put
  std::string value;
  std::vector<std::string> named;
};

void PrintTo(const Fault& test, std::ostream* stream) { *stream << test.name; }

class SweepFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(SweepFaults, AreRefusedWithWhatIsAllowed) {
  Json json = small();
  json[Json::json_pointer(GetParam().pointer)] = Json::parse(GetParam().value);
  const std::string message = refusal(json);
  EXPECT_THAT(message, HasSubstr("s.json"));
  for (const std::string& word : GetParam().named) EXPECT_THAT(message, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    All, SweepFaults,
    ::testing::Values(
        Fault{"UnknownKey", "/axis", "{}", {"axis", "axes"}},
        Fault{"UnknownAxis", "/axes/cachet", "[\"none\"]", {"cachet", "cache", "gen_tokens"}},
        Fault{"UnknownValue", "/axes/cache", "[\"ring\"]", {"ring", "contiguous"}},
        Fault{"EmptyAxis", "/axes/cache", "[]", {"cache", "at least one"}},
        Fault{"Twice", "/axes/cache", "[\"none\", \"none\"]", {"none", "twice"}},
        Fault{"NotAList", "/axes/cache", "\"none\"", {"cache"}},
        Fault{"ZeroTokens", "/axes/gen_tokens", "[0]", {"gen_tokens", "0"}},
        Fault{"NegativeBatch", "/axes/batch", "[-1]", {"batch", "-1"}},
        Fault{"Fraction", "/axes/batch", "[1.5]", {"batch", "1.5"}},
        Fault{"Overflow", "/axes/batch", "[100000000000000000000]", {"batch"}},
        Fault{"PageSizeZero", "/axes/page_size", "[0]", {"page_size", "0"}},
        Fault{"RangeBothWays", "/axes/batch", R"({"from": 1, "to": 2, "times": 2, "step": 1})", {"times", "step"}},
        Fault{"RangeTimesOne", "/axes/batch", R"({"from": 1, "to": 2, "times": 1})", {"times"}},
        Fault{"RangeBackwards", "/axes/batch", R"({"from": 3, "to": 2, "step": 1})", {"to"}},
        Fault{"RangeTooLong", "/axes/batch", R"({"from": 1, "to": 2000000000, "step": 1})", {"batch"}},
        Fault{"RangeUnknownKey", "/axes/batch", R"({"from": 1, "to": 2, "by": 1})", {"by", "step"}},
        Fault{"AttentionTwice", "/axes/prefill_attention", "[\"naive\"]", {"attention", "prefill_attention"}},
        Fault{"ExcludeUnknown", "/exclude", R"([{"colour": "red"}])", {"colour"}},
        Fault{"ExcludeEmpty", "/exclude", "[{}]", {"exclude"}}, Fault{"NoModels", "/models", "[]", {"models"}},
        Fault{"ModelTwice", "/models", R"(["m", "m"])", {"m", "twice"}},
        Fault{"RoundsUnknown", "/rounds", R"({"least": 1})", {"least", "min"}},
        Fault{"RoundsMaxBelowMin", "/rounds", R"({"min": 5, "max": 4})", {"max"}},
        Fault{"RoundsNegative", "/rounds", R"({"budget_s": -1})", {"budget_s"}}),
    [](const auto& test) { return test.param.name; });

TEST(SweepConfig, NamesWhatIsMissing) {
  for (const char* key : {"name", "models", "axes"}) {
    Json json = small();
    json.erase(key);
    EXPECT_THAT(refusal(json), HasSubstr(key));
  }
  for (const char* axis : {"prompt_tokens", "gen_tokens"}) {
    Json json = small();
    json["axes"].erase(axis);
    EXPECT_THAT(refusal(json), HasSubstr(axis));
  }
}

TEST(SweepConfig, AKeyGivenTwiceIsRefused) {
  const testing::Folder folder;
  const std::string path = folder.path("s.json");
  testing::write_file(
      path, R"({"name": "a", "name": "b", "models": ["m"], "axes": {"prompt_tokens": [1], "gen_tokens": [1]}})");
  EXPECT_THROW(read_sweep_config(path), InputError);
}

TEST(SweepConfig, TheCommittedSweepsAreRead) {
  for (const auto& entry : std::filesystem::directory_iterator(std::string(KVLAB_SOURCE_DIR) + "/configs/sweeps")) {
    EXPECT_NO_THROW(sweep_cases(read_sweep_config(entry.path().string()), {}, "cpu", 1)) << entry.path();
  }
}

}  // namespace
}  // namespace kvlab
