// What stands inside the timed parts of a round.
#include "harness/round.h"

#include <gtest/gtest.h>

#include "harness/model_session.h"

namespace kvlab {
namespace {

/// How many passes the decoder had recorded before and after each pass of a round.
class RecordingCounts : public PassWatcher {
 public:
  void before_pass(std::int64_t) override {
    if (decoder_ != nullptr) before_.push_back(decoder_->n_recorded());
  }
  void after_pass(std::int64_t) override { after_.push_back(decoder_->n_recorded()); }
  void see(const Decoder& decoder) { decoder_ = &decoder; }

  const std::vector<std::int64_t>& before() const { return before_; }  // [steps]
  const std::vector<std::int64_t>& after() const { return after_; }    // [passes]

 private:
  const Decoder* decoder_ = nullptr;
  std::vector<std::int64_t> before_;
  std::vector<std::int64_t> after_;
};

Case toy_case(const Variant& variant) {
  Case spec;
  spec.model = "toy";
  spec.variant = variant;
  spec.workload = {2, 3, 5, 6};
  return spec;
}

Round run(ModelSession& session, const Variant& variant, RoundOptions options = {}) {
  const Case spec = toy_case(variant);
  const WorkloadTokens tokens = workload_tokens(session.checkpoint(), spec.workload, "", 1);
  options.n_choices = choosable_ids(session.checkpoint());
  return run_round(session.transformer(variant), spec, tokens, options);
}

Variant graph_variant(CacheKind cache, SamplingKind sampling) {
  Variant variant;
  variant.cache = cache;
  variant.execution = ExecutionKind::graph;
  variant.sampling = sampling;
  return variant;
}

TEST(Round, TimedStepsOfAGraphOnlyReplayIt) {
  ModelSession session("toy", "cpu", 1, 1);
  for (const SamplingKind sampling : {SamplingKind::host, SamplingKind::device}) {
    for (const CacheKind cache : {CacheKind::contiguous, CacheKind::qkv, CacheKind::paged}) {
      RecordingCounts counts;
      RoundOptions options;
      options.watcher = &counts;
      options.after_pass = [&](std::int64_t, const Decoder& decoder) { counts.see(decoder); };
      run(session, graph_variant(cache, sampling), options);
      EXPECT_EQ(counts.after(), (std::vector<std::int64_t>{2, 3, 3, 3, 3, 3}));  // depth, prompt; then the step
      EXPECT_EQ(counts.before(), (std::vector<std::int64_t>{3, 3, 3, 3, 3}));
    }
  }
}

TEST(Round, ARehearsalLeavesNoTrace) {
  ModelSession session("toy", "cpu", 1, 1);
  for (const SamplingKind sampling : {SamplingKind::host, SamplingKind::device}) {
    for (const CacheKind cache : {CacheKind::none, CacheKind::contiguous, CacheKind::qkv, CacheKind::paged}) {
      Variant variant = graph_variant(cache, sampling);
      const Round graph = run(session, variant);
      variant.execution = ExecutionKind::eager;
      const Round eager = run(session, variant);
      EXPECT_EQ(graph.tokens, eager.tokens);
      EXPECT_EQ(graph.step_rows, eager.step_rows);
      EXPECT_EQ(graph.step_dots, eager.step_dots);
      EXPECT_EQ(graph.decode_work.gemm_flops, eager.decode_work.gemm_flops);
      EXPECT_EQ(graph.decode_work.kv_write_bytes, eager.decode_work.kv_write_bytes);
      EXPECT_EQ(graph.kv.used_bytes, eager.kv.used_bytes);
      EXPECT_EQ(graph.kv.reserved_bytes, eager.kv.reserved_bytes);
      EXPECT_EQ(graph.workspace_bytes, eager.workspace_bytes);
    }
  }
}

}  // namespace
}  // namespace kvlab
