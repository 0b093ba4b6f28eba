// A recorded graph on two threads: it waits where it must and nowhere else, and its answers are right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_graph.h"
#include "model/decoder.h"
#include "model/reference_forward.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

constexpr std::int64_t kWidth = 400;  // a product of kWidth x kWidth is worth a second thread

std::int64_t barriers_of(RecordedGraph& graph) {
  graph.run();
  return dynamic_cast<const cpu::CpuGraph&>(graph).n_barriers();
}

/// Three buffers and one product over them.
class Products {
 public:
  explicit Products(std::int64_t width)
      : width_(width),
        ops_(make_cpu_operations(2)),
        weight_(ops_->pack_matrix(test::random_matrix(width, width, 1), DType::f32)),
        buffers_(3, test::random_values(width, 2)) {}

  /// Records products from buffer `first` to buffer `second`, one after the other.
  std::unique_ptr<RecordedGraph> record(const std::vector<std::pair<std::size_t, std::size_t>>& products) {
    ops_->begin_recording();
    for (const auto& [from, to] : products) {
      ops_->matmul(*weight_, buffers_[from].data(), width_, 1, buffers_[to].data(), width_, nullptr, false);
    }
    return ops_->end_recording();
  }

 private:
  std::int64_t width_;
  std::unique_ptr<Operations> ops_;
  std::unique_ptr<PackedMatrix> weight_;
  std::vector<std::vector<float>> buffers_;
};

TEST(TwoThreadsSpecS19, ThreadsWaitOnlyForWhatTheyNeed) {
  Products products(kWidth);
  EXPECT_EQ(barriers_of(*products.record({{0, 1}, {0, 2}})), 0) << "independent";
  EXPECT_EQ(barriers_of(*products.record({{0, 1}, {1, 2}})), 1) << "read after write";
  EXPECT_EQ(barriers_of(*products.record({{0, 1}, {2, 0}})), 1) << "write after read";
  EXPECT_EQ(barriers_of(*products.record({{0, 1}, {2, 1}})), 1) << "write after write";
  EXPECT_EQ(barriers_of(*products.record({{0, 1}, {0, 2}, {1, 0}})), 1) << "one wait serves both";
  Products small(20);
  EXPECT_EQ(barriers_of(*small.record({{0, 1}, {1, 2}, {2, 0}})), 0) << "too small for a second thread";
}

/// Large enough that products, and attention beyond some 200 keys, run on two threads.
ModelConfig two_thread_shape() {
  ModelConfig config;
  config.name = "two threads";
  config.architecture = "llama";
  config.n_layers = 2;
  config.n_heads = 8;
  config.n_kv_heads = 2;
  config.head_dim = 32;
  config.hidden = 272;
  config.ffn_hidden = 500;
  config.vocab_size = 523;
  config.context_length = 512;
  return config;
}

std::vector<std::int32_t> ids(std::int32_t n) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < n; ++i) ids.push_back(i * 151 % 523);
  return ids;
}

/// Logits of the prompt's last row and of eight decode steps with given tokens, for two sequences of which the first
/// crosses the split of fused attention.
std::vector<float> logits_of(ExecutionKind execution, int n_threads, Variant variant) {
  variant.execution = execution;
  Transformer transformer(make_cpu_operations(n_threads), make_synthetic_weights(two_thread_shape(), 1), variant);
  Decoder decoder(transformer, variant, 2, 300);
  const std::vector<std::vector<std::int32_t>> prompts = {ids(251), ids(14)};
  decoder.prefill(prompts);
  std::vector<float> logits;
  const auto keep = [&] {
    for (const std::int64_t seq : {0, 1}) {
      logits.insert(logits.end(), decoder.logits(seq).begin(), decoder.logits(seq).end());
    }
  };
  keep();
  for (std::int32_t step = 0; step < 8; ++step) {
    const std::vector<std::int32_t> tokens = {step, 100 + step};
    decoder.decode(tokens);
    keep();
  }
  return logits;
}

TEST(TwoThreadsSpecS19, OwnKernelsGiveTheSameBitsOnTwoThreads) {
  for (const CacheKind cache : {CacheKind::contiguous, CacheKind::paged}) {
    for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::fused}) {
      Variant variant;
      variant.cache = cache;
      variant.prefill_attention = attention;
      variant.decode_attention = attention;
      variant.weight_dtype = DType::bf16;  // f32 products are oneDNN's, which adds in another order on two threads
      const std::vector<float> eager = logits_of(ExecutionKind::eager, 1, variant);
      EXPECT_EQ(logits_of(ExecutionKind::graph, 2, variant), eager);
    }
  }
}

TEST(TwoThreadsSpecS19, PartsOfF32ProductsAreAsCloseToFloat64AsEager) {
  Variant variant;
  variant.cache = CacheKind::paged;
  const std::vector<float> eager = logits_of(ExecutionKind::eager, 2, variant);
  const std::vector<float> graph = logits_of(ExecutionKind::graph, 2, variant);
  ASSERT_EQ(graph.size(), eager.size());
  std::vector<std::int32_t> first = ids(251);
  for (std::int32_t step = 0; step < 8; ++step) first.push_back(step);
  const std::vector<double> expected =
      reference_logits(*make_synthetic_weights(two_thread_shape(), 1), first, 9, DType::f32);  // [9, vocab_size]
  const auto error = [&](const std::vector<float>& logits) {
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t row = i / 523;
      const double difference = std::abs(static_cast<double>(logits[2 * row * 523 + i % 523]) - expected[i]);
      if (!(difference <= worst)) worst = difference;
    }
    return worst;
  };
  // Two orders of the same additions err alike but not equally: twice the error of the other, and a floor of one unit
  // in the last place of logits near 10.
  EXPECT_TRUE(error(graph) <= 2 * error(eager) + 1e-6) << error(graph) << " against " << error(eager);
}

}  // namespace
}  // namespace kvlab
