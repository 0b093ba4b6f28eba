// SPEC S20 on the emulated device: what crosses the bus, to the byte, and choices that never leave the device.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda_emulation/backend.h"
#include "model/generation.h"
#include "model/weight_source.h"
#include "tests/model/golden_models.h"

namespace kvlab::testing {
namespace {

constexpr std::int64_t kSeqs = 3;

class SpecS20 : public ::testing::Test {
 protected:
  static Variant variant_of(SamplingKind sampling, ExecutionKind execution = ExecutionKind::eager) {
    Variant variant;
    variant.sampling = sampling;
    variant.execution = execution;
    return variant;
  }

  std::unique_ptr<Transformer> transformer(const Variant& variant) const {
    return std::make_unique<Transformer>(ops_, make_synthetic_weights(small_config(), 1), variant);
  }

  static std::vector<std::vector<std::int32_t>> prompts() { return {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}; }

  cuda::emulation::Device device_{{.counts = false}};
  std::shared_ptr<Operations> ops_ = cuda::emulation::make_emulated_operations(device_);
};

TEST_F(SpecS20, HostSamplingBringsTheLogitsBack) {
  for (const ExecutionKind execution : {ExecutionKind::eager, ExecutionKind::graph}) {
    const Variant variant = variant_of(SamplingKind::host, execution);
    const auto model = transformer(variant);
    Decoder decoder(*model, variant, kSeqs, 16);
    decoder.prefill(prompts());
    const Transfers before = ops_->transfers();
    decoder.decode(std::vector<std::int32_t>{1, 2, 3});
    for (std::int64_t seq = 0; seq < kSeqs; ++seq) decoder.logits(seq);
    EXPECT_EQ((ops_->transfers() - before).to_host_bytes, kSeqs * small_config().vocab_size * 4);
  }
}

TEST_F(SpecS20, DeviceSamplingBringsOneIdASequenceBack) {
  for (const ExecutionKind execution : {ExecutionKind::eager, ExecutionKind::graph}) {
    for (const SamplingSettings& settings : {SamplingSettings{}, SamplingSettings{0.9, 20, 0.8}}) {
      const Variant variant = variant_of(SamplingKind::device, execution);
      const auto model = transformer(variant);
      Decoder decoder(*model, variant, kSeqs, 16);
      for (std::int64_t seq = 0; seq < kSeqs; ++seq) decoder.set_sampling(seq, settings);
      const Transfers at_first = ops_->transfers();
      decoder.prefill(prompts());
      decoder.take_choices();
      EXPECT_EQ((ops_->transfers() - at_first).to_host_bytes, kSeqs * 4);
      decoder.decode_chosen();
      const Transfers before = ops_->transfers();
      const std::int64_t n_allocations = device_.n_allocations();
      decoder.decode_chosen();
      decoder.take_choices();
      const Transfers step = ops_->transfers() - before;
      EXPECT_EQ(step.to_host_bytes, kSeqs * 4);
      EXPECT_EQ(device_.n_allocations(), n_allocations);
      if (execution == ExecutionKind::graph) {
        EXPECT_EQ(step.n_to_device, 1) << "positions, spans and tables go over in one piece";
      }
    }
  }
}

/// The scratch of all sequences is there before the first step, though the prompt's rows are chosen from one by one.
TEST_F(SpecS20, DrawingTakesItsMemoryWithTheSettings) {
  const Variant variant = variant_of(SamplingKind::device);
  const auto model = transformer(variant);
  Decoder decoder(*model, variant, kSeqs, 16);
  const std::int64_t greedy = device_.n_allocations();
  for (std::int64_t seq = 0; seq < kSeqs; ++seq) decoder.set_sampling(seq, {1.0, 0, 1.0});
  EXPECT_EQ(device_.n_allocations(), greedy + 1);
  EXPECT_EQ(decoder.workspace_bytes(), 0);
  decoder.prefill(prompts());
  EXPECT_GT(decoder.workspace_bytes(), kSeqs * small_config().vocab_size * 8);
}

TEST_F(SpecS20, LoadingMovesEveryWeightOnce) {
  const GoldenModel golden = load_golden("llama-mha");  // a file's weights: none is drawn on the device
  const Transfers before = ops_->transfers();
  const Transformer model(ops_, golden.checkpoint.weights, {});
  EXPECT_EQ((ops_->transfers() - before).to_device_bytes, 4 * parameter_count(golden.checkpoint.config));
  EXPECT_EQ((ops_->transfers() - before).to_host_bytes, 0);
}

TEST_F(SpecS20, TheDeviceChoosesWhatTheHostWould) {
  for (const CacheKind cache : {CacheKind::contiguous, CacheKind::paged, CacheKind::none}) {
    for (const std::int64_t chunk : {0, 2}) {
      Variant variant = variant_of(SamplingKind::device);
      variant.cache = cache;
      variant.prefill_chunk = chunk;
      const auto model = transformer(variant);
      const std::vector<std::vector<std::int32_t>> ragged = {{1, 2, 3, 4, 5}, {6}, {7, 8, 9}};
      Decoder decoder(*model, variant, kSeqs, 16);
      Variant on_host = variant;
      on_host.sampling = SamplingKind::host;
      Decoder expected(*model, on_host, kSeqs, 16);
      decoder.prefill(ragged);
      expected.prefill(ragged);
      for (int step = 0; step < 4; ++step) {
        std::vector<std::int32_t> ids;
        for (std::int64_t seq = 0; seq < kSeqs; ++seq) ids.push_back(greedy_choice(expected.logits(seq)));
        EXPECT_EQ(decoder.take_choices(), ids) << "step " << step;
        decoder.decode_chosen();
        expected.decode(ids);
      }
    }
  }
}

TEST_F(SpecS20, AGenerationOnTheDeviceGivesTheGoldenTokens) {
  const GoldenModel golden = load_golden("llama-mha");
  const Variant variant = variant_of(SamplingKind::device, ExecutionKind::graph);
  Transformer model(ops_, golden.checkpoint.weights, variant);
  Decoder decoder(model, variant, 1, 100);
  GenerationSettings settings;
  settings.max_new_tokens = 6;
  settings.keep_prompt_logits = false;
  Generation generation(decoder, nullptr, golden.prompt, {}, 1, settings);
  const Transfers before = ops_->transfers();
  while (generation.step()) {
  }
  EXPECT_EQ(generation.tokens(), std::vector<std::int32_t>(golden.greedy.begin(), golden.greedy.begin() + 6));
  EXPECT_EQ((ops_->transfers() - before).to_host_bytes, 6 * 4);
}

TEST_F(SpecS20, AStepThatRanAheadIsDroppedAtTheEnd) {
  const GoldenModel golden = load_golden("llama-mha");
  const Variant variant = variant_of(SamplingKind::device);
  Transformer model(ops_, golden.checkpoint.weights, variant);
  Decoder decoder(model, variant, 1, 100);
  GenerationSettings settings;
  settings.keep_prompt_logits = false;
  Generation generation(decoder, nullptr, golden.prompt, {golden.greedy[3]}, 1, settings);
  while (generation.step()) {
  }
  EXPECT_EQ(generation.stop_reason(), StopReason::eos);
  EXPECT_EQ(generation.tokens(), std::vector<std::int32_t>(golden.greedy.begin(), golden.greedy.begin() + 3));
  EXPECT_EQ(decoder.length(0), static_cast<std::int64_t>(golden.prompt.size()) + 3) << "as if it had never run";
}

}  // namespace
}  // namespace kvlab::testing
