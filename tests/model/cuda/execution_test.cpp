// How the CUDA backend issues a step, on the emulated device: recorded steps give eager's bits, and no step of a known
// shape allocates memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/backend.h"
#include "model/weight_source.h"
#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

Variant variant_of(CacheKind cache, AttentionKind attention, ExecutionKind execution) {
  Variant variant;
  variant.cache = cache;
  variant.page_size = 4;
  variant.prefill_attention = variant.decode_attention = attention;
  variant.execution = execution;
  return variant;
}

/// Two sequences that prefill raggedly and decode across the edges of pages.
class CudaExecution : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSteps = 6;

  std::unique_ptr<Transformer> transformer(const Variant& variant) const {
    return std::make_unique<Transformer>(ops_, make_synthetic_weights(small_config(), 1), variant);
  }

  static void prefill(Decoder& decoder) {
    const std::vector<std::vector<std::int32_t>> prompts = {{1, 2, 3, 4, 5, 6, 7}, {9, 8, 7}};
    decoder.prefill(prompts);
  }
  static void decode(Decoder& decoder, std::int64_t step) {
    const auto id = static_cast<std::int32_t>(step);
    decoder.decode(std::vector<std::int32_t>{10 + id, 20 + id});
  }

  /// The logits of both sequences after every pass.
  std::vector<float> run(const Variant& variant) const {
    const auto model = transformer(variant);
    Decoder decoder(*model, variant, 2, 16);
    std::vector<float> all;
    const auto keep = [&] {
      for (const std::int64_t seq : {0, 1}) {
        all.insert(all.end(), decoder.logits(seq).begin(), decoder.logits(seq).end());
      }
    };
    prefill(decoder);
    keep();
    for (std::int64_t step = 0; step < kSteps; ++step) {
      decode(decoder, step);
      keep();
    }
    return all;
  }

  cuda::emulation::Device device_{{.counts = false}};
  std::shared_ptr<Operations> ops_ = cuda::emulation::make_emulated_operations(device_);
};

TEST_F(CudaExecution, RecordedStepsGiveTheBitsOfEagerOnes) {
  for (const CacheKind cache : {CacheKind::contiguous, CacheKind::paged, CacheKind::none}) {
    for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::fused}) {
      const auto eager = run(variant_of(cache, attention, ExecutionKind::eager));
      const auto recorded = run(variant_of(cache, attention, ExecutionKind::graph));
      EXPECT_EQ(eager, recorded) << variant_label(variant_of(cache, attention, ExecutionKind::graph));
    }
  }
}

TEST_F(CudaExecution, OneRecordingServesEveryLength) {
  const Variant variant = variant_of(CacheKind::paged, AttentionKind::fused, ExecutionKind::graph);
  const auto model = transformer(variant);
  Decoder decoder(*model, variant, 2, 16);
  prefill(decoder);
  for (std::int64_t step = 0; step < kSteps; ++step) decode(decoder, step);
  EXPECT_EQ(decoder.n_recorded(), 2) << "the prefill, and one for all decode steps";
}

/// Whatever edge the lengths cross: of a page, of eight scores.
TEST_F(CudaExecution, AStepOfAKnownShapeAllocatesNothing) {
  for (const CacheKind cache : {CacheKind::contiguous, CacheKind::paged}) {
    for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::fused}) {
      for (const ExecutionKind execution : {ExecutionKind::eager, ExecutionKind::graph}) {
        for (const DType kv_dtype : {DType::f32, DType::bf16}) {
          Variant variant = variant_of(cache, attention, execution);
          variant.kv_dtype = kv_dtype;
          const auto model = transformer(variant);
          Decoder decoder(*model, variant, 2, 16);
          prefill(decoder);
          decode(decoder, 0);
          const std::int64_t before = device_.n_allocations();
          for (std::int64_t step = 1; step < kSteps; ++step) decode(decoder, step);
          EXPECT_EQ(device_.n_allocations(), before) << variant_label(variant);
        }
      }
    }
  }
}

TEST_F(CudaExecution, CountsTheWorkOfTheCpu) {
  const std::shared_ptr<Operations> cpu = make_cpu_operations(1);
  for (const ExecutionKind execution : {ExecutionKind::eager, ExecutionKind::graph}) {
    const Variant variant = variant_of(CacheKind::contiguous, AttentionKind::fused, execution);
    const auto model = transformer(variant);
    Transformer on_cpu(cpu, make_synthetic_weights(small_config(), 1), variant);
    Decoder decoder(*model, variant, 2, 16);
    Decoder expected(on_cpu, variant, 2, 16);
    for (Decoder* each : {&decoder, &expected}) {
      prefill(*each);
      decode(*each, 0);
    }
    EXPECT_EQ(decoder.total_work().attention_dots, expected.total_work().attention_dots);
    EXPECT_EQ(decoder.total_work().attention_dots_newest_row, expected.total_work().attention_dots_newest_row);
    EXPECT_EQ(decoder.total_work().kv_read_bytes, expected.total_work().kv_read_bytes);
  }
}

/// The CPU's nodes, with one that rotates and appends in place of three.
std::vector<GraphNode> with_fused_append(const std::vector<GraphNode>& nodes) {
  std::vector<GraphNode> result;
  for (const GraphNode& node : nodes) {
    if (node.operation == "rope") continue;
    result.push_back(node);
    if (node.operation == "append") result.back().operation = "rope_append";
  }
  return result;
}

TEST_F(CudaExecution, NodesAreThoseOfTheCpu) {
  const Variant variant = variant_of(CacheKind::contiguous, AttentionKind::fused, ExecutionKind::graph);
  const auto model = transformer(variant);
  Transformer on_cpu(make_cpu_operations(1), make_synthetic_weights(small_config(), 1), variant);
  Decoder decoder(*model, variant, 2, 16);
  Decoder expected(on_cpu, variant, 2, 16);
  prefill(decoder);
  prefill(expected);
  const std::vector<GraphNode> expected_nodes = with_fused_append(expected.graph()->nodes());
  const auto& nodes = decoder.graph()->nodes();
  ASSERT_EQ(nodes.size(), expected_nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(nodes[i].operation, expected_nodes[i].operation);
    EXPECT_EQ(nodes[i].name, expected_nodes[i].name);
    EXPECT_EQ(nodes[i].layer, expected_nodes[i].layer);
  }
}

TEST_F(CudaExecution, ALayerOfADecodeStepIsSixOperations) {
  const Variant variant = variant_of(CacheKind::paged, AttentionKind::fused, ExecutionKind::graph);
  const auto model = transformer(variant);
  Decoder decoder(*model, variant, 2, 16);
  prefill(decoder);
  decode(decoder, 0);
  std::vector<std::string> expected = {"embed"};
  for (std::int64_t layer = 0; layer < small_config().n_layers; ++layer) {
    for (const char* operation :
         {"fused_matmul", "rope_append", "attention (fused)", "matmul", "fused_matmul", "matmul"}) {
      expected.emplace_back(operation);
    }
  }
  expected.insert(expected.end(), {"rms_norm", "matmul"});
  std::vector<std::string> operations;
  for (const GraphNode& node : decoder.graph()->nodes()) operations.push_back(node.operation);
  EXPECT_EQ(operations, expected);
}

}  // namespace
}  // namespace kvlab::testing
