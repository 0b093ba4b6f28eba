// llama-bench's rows beside ours: which do the same work, and what is refused.
#include "harness/llama_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/error.h"

namespace kvlab {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// A test of `n_prompt` or `n_gen` tokens that took `ms` milliseconds, and a little more each time.
json peer_test(std::int64_t n_prompt, std::int64_t n_gen, std::int64_t n_depth, double ms) {
  json samples = json::array();
  for (int i = 0; i < 5; ++i) samples.push_back(static_cast<std::int64_t>(ms * 1e6 * (1 + 0.001 * i)));
  return {{"build_commit", "abcdef0"},
          {"model_filename", "/elsewhere/m.gguf"},
          {"n_threads", 2},
          {"n_prompt", n_prompt},
          {"n_gen", n_gen},
          {"n_depth", n_depth},
          {"samples_ns", samples}};
}

/// Prompt 100 in 50 ms (2,000 tokens/s), then 10 steps of 20 ms (50 tokens/s).
ReportRow our_row() {
  ReportRow row;
  row.spec = {{"model", "models/m.gguf"},
              {"workload", {{"batch", 1}, {"depth", 28}, {"prompt_tokens", 100}, {"gen_tokens", 11}}},
              {"threads", 2}};
  row.label = "ours";
  row.status = "ok";
  row.prefill_tokens = 100;
  row.decode_tokens = 10;
  for (int i = 0; i < 5; ++i) {
    row.prefill_s.push_back(0.050 * (1 + 0.001 * i));
    row.step_s.emplace_back(10, 0.020 * (1 + 0.001 * i));
  }
  return row;
}

PeerComparison compare_with(const json& list, const ReportRow& row = our_row()) {
  return compare_with_peer({"ours.json", "", "", {row}}, read_llama_bench("peer.json", list));
}

TEST(LlamaBench, StandsBesideTheSameWork) {
  const PeerComparison comparison = compare_with({peer_test(100, 0, 28, 25), peer_test(0, 10, 128, 400)});
  ASSERT_EQ(comparison.cells.size(), 2U);
  EXPECT_TRUE(comparison.alone.empty());
  const PeerCell& prefill = comparison.cells[0];
  EXPECT_EQ(prefill.metric, "prefill.tokens_per_s");
  EXPECT_EQ(prefill.peer.test, "pp100 @ d28");
  EXPECT_NEAR(prefill.ours, 2000 / 1.002, 1e-6);
  EXPECT_NEAR(prefill.theirs, 4000 / 1.002, 1e-6);
  EXPECT_NEAR(prefill.ratio, 0.5, 1e-6);
  EXPECT_EQ(prefill.verdict, Verdict::slower);
  const PeerCell& decode = comparison.cells[1];
  EXPECT_EQ(decode.metric, "decode.tokens_per_s");
  EXPECT_NEAR(decode.ratio, 2, 1e-6);
  EXPECT_EQ(decode.verdict, Verdict::faster);
  EXPECT_LE(*decode.low, decode.ratio);
  EXPECT_GE(*decode.high, decode.ratio);
  EXPECT_EQ(peer_json(comparison)[1]["peer"]["test"], "tg10 @ d128");
  EXPECT_THAT(peer_table(comparison), HasSubstr("tg10 @ d128"));
}

TEST(LlamaBench, OtherWorkStandsAlone) {
  json other_threads = peer_test(100, 0, 28, 25);
  other_threads["n_threads"] = 4;
  json other_model = peer_test(100, 0, 28, 25);
  other_model["model_filename"] = "n.gguf";
  const json list = {peer_test(101, 0, 28, 25),
                     peer_test(100, 0, 0, 25),
                     peer_test(0, 12, 128, 25),
                     peer_test(0, 9, 128, 25),
                     peer_test(0, 10, 28, 25),
                     other_threads,
                     other_model};
  const PeerComparison comparison = compare_with(list);
  EXPECT_TRUE(comparison.cells.empty());
  EXPECT_EQ(comparison.alone.size(), list.size());
  EXPECT_THAT(peer_table(comparison), HasSubstr("no case does the same work"));

  ReportRow two_sequences = our_row();
  two_sequences.spec["workload"]["batch"] = 2;
  EXPECT_TRUE(compare_with(json::array({peer_test(100, 0, 28, 25)}), two_sequences).cells.empty());
  ReportRow failed = our_row();
  failed.status = "failed";
  EXPECT_TRUE(compare_with(json::array({peer_test(100, 0, 28, 25)}), failed).cells.empty());
}

TEST(LlamaBench, BothPhasesAtOnceAreLeftOutAndDepthMayBeMissing) {
  EXPECT_TRUE(read_llama_bench("peer.json", json::array({peer_test(100, 10, 0, 25)})).empty());
  json early = peer_test(100, 0, 0, 25);
  early.erase("n_depth");
  EXPECT_EQ(read_llama_bench("peer.json", json::array({early})).at(0).n_depth, 0);
}

TEST(LlamaBench, OtherFilesAreRefusedByKey) {
  const auto message = [](const json& list) -> std::string {
    try {
      read_llama_bench("peer.json", list);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message(json::object()), HasSubstr("peer.json"));
  EXPECT_THAT(message(json::array({3})), HasSubstr("[0]"));
  for (const char* key : {"build_commit", "model_filename", "n_threads", "n_prompt", "n_gen", "samples_ns"}) {
    json row = peer_test(100, 0, 0, 25);
    row.erase(key);
    EXPECT_THAT(message(json::array({row})), HasSubstr(key));
  }
  json negative = peer_test(100, 0, 0, 25);
  negative["samples_ns"][2] = -1;
  EXPECT_THAT(message(json::array({negative})), HasSubstr("samples_ns"));
  negative["samples_ns"] = json::array();
  EXPECT_THAT(message(json::array({negative})), HasSubstr("empty"));
}

}  // namespace
}  // namespace kvlab
