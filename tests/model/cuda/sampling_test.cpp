// Sampling on the emulated device inside a decoder: the ids of the host's sampler for the same seeds, whatever the
// cache and the execution; settings that change and steps that are dropped under way; logits without a choice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/backend.h"
#include "kernels/error.h"
#include "model/generation.h"
#include "model/weight_source.h"
#include "tests/model/golden_models.h"
#include "variants/registry.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kSpoiltToken = 5;

/// Synthetic weights in which one token's embedding is NaN.
class SpoiltWeights final : public WeightSource {
 public:
  const ModelConfig& config() const override { return weights_->config(); }
  HostMatrix read(WeightRole role, std::int64_t layer) const override {
    HostMatrix matrix = weights_->read(role, layer);
    if (role == WeightRole::token_embedding) std::fill_n(matrix.row(kSpoiltToken), matrix.cols, std::nanf(""));
    return matrix;
  }

 private:
  std::shared_ptr<const WeightSource> weights_ = make_synthetic_weights(small_config(), 1);
};

/// One sequence of a batch.
struct Sampled {
  Ids prompt;
  SamplingSettings settings;
  std::uint64_t seed;
};

const std::vector<Sampled> kRagged = {{{1, 2, 3, 4, 5}, {0.8, 40, 0.95}, 7}, {{6, 7}, {2.0, 0, 1.0}, 8}};

std::vector<Ids> prompts_of(const std::vector<Sampled>& sequences) {
  std::vector<Ids> prompts;
  for (const Sampled& sequence : sequences) prompts.push_back(sequence.prompt);
  return prompts;
}

class DeviceSampling : public ::testing::Test {
 protected:
  static Variant variant_of(CacheKind cache, ExecutionKind execution = ExecutionKind::eager) {
    Variant variant;
    variant.cache = cache;
    variant.execution = execution;
    variant.sampling = SamplingKind::device;
    return variant;
  }

  Transformer& model(const Variant& variant) {
    if (model_ == nullptr)
      model_ = std::make_unique<Transformer>(ops_, make_synthetic_weights(small_config(), 1), variant);
    return *model_;
  }

  std::unique_ptr<Decoder> device_decoder(const Variant& variant, const std::vector<Sampled>& sequences) {
    auto decoder = std::make_unique<Decoder>(model(variant), variant, std::ssize(sequences), 24);
    for (std::size_t seq = 0; seq < sequences.size(); ++seq) {
      decoder->set_sampling(static_cast<std::int64_t>(seq), sequences[seq].settings);
      decoder->seed_sampling(static_cast<std::int64_t>(seq), sequences[seq].seed);
    }
    decoder->prefill(prompts_of(sequences));
    return decoder;
  }

  /// The ids of `n_steps` choices as the host makes them, [n_steps][n_seqs].
  std::vector<Ids> hosts_ids(Variant variant, const std::vector<Sampled>& sequences, int n_steps) {
    variant.sampling = SamplingKind::host;
    Decoder decoder(model(variant), variant, std::ssize(sequences), 24);
    std::vector<Sampler> samplers;
    for (const Sampled& sequence : sequences) samplers.emplace_back(sequence.seed);
    decoder.prefill(prompts_of(sequences));
    std::vector<Ids> ids;
    for (int step = 0; step < n_steps; ++step) {
      if (step > 0) decoder.decode(ids.back());
      ids.emplace_back();
      for (std::size_t seq = 0; seq < sequences.size(); ++seq) {
        const std::span<const float> logits = decoder.logits(static_cast<std::int64_t>(seq));
        ids.back().push_back(samplers[seq].choose(logits, std::ssize(logits), sequences[seq].settings));
      }
    }
    return ids;
  }

  void expect_the_hosts_ids(const Variant& variant, const std::vector<Sampled>& sequences) {
    constexpr int kSteps = 4;
    const std::vector<Ids> expected = hosts_ids(variant, sequences, kSteps);
    const auto decoder = device_decoder(variant, sequences);
    for (int step = 0; step < kSteps; ++step) {
      if (step > 0) decoder->decode_chosen();
      EXPECT_EQ(decoder->take_choices(), expected[static_cast<std::size_t>(step)]) << "step " << step;
    }
  }

  cuda::emulation::Device device_{{.counts = false}};
  std::shared_ptr<Operations> ops_ = cuda::emulation::make_emulated_operations(device_);
  std::unique_ptr<Transformer> model_;
};

/// Emulated steps are slow: each cache once, and each execution.
const std::vector<std::pair<CacheKind, ExecutionKind>> kEveryCache = {{CacheKind::contiguous, ExecutionKind::eager},
                                                                      {CacheKind::contiguous, ExecutionKind::graph},
                                                                      {CacheKind::paged, ExecutionKind::graph},
                                                                      {CacheKind::none, ExecutionKind::eager}};

TEST_F(DeviceSampling, DrawsWhatTheHostWouldOverEveryCache) {
  for (const auto& [cache, execution] : kEveryCache) {
    SCOPED_TRACE(variant_label(variant_of(cache, execution)));
    expect_the_hosts_ids(variant_of(cache, execution), kRagged);
  }
}

TEST_F(DeviceSampling, GreedySequencesMayStandBesideDrawnOnes) {
  std::vector<Sampled> sequences = kRagged;
  sequences.insert(sequences.begin() + 1, {{9, 9, 9}, {}, 9});
  expect_the_hosts_ids(variant_of(CacheKind::contiguous), sequences);
}

TEST_F(DeviceSampling, AChunkInsideAPromptDrawsNothing) {
  Variant variant = variant_of(CacheKind::contiguous);
  variant.prefill_chunk = 2;
  variant.logits = LogitsKind::all;  // there are rows that could be chosen from
  expect_the_hosts_ids(variant, kRagged);
}

TEST_F(DeviceSampling, PaddedIdsAreNeverDrawn) {
  const Variant variant = variant_of(CacheKind::contiguous);
  const std::vector<Sampled> flat = {{{1, 2}, {1e6, 0, 1.0}, 3}, {{3}, {1e6, 50, 1.0}, 4}};
  Decoder decoder(model(variant), variant, 2, 24);
  decoder.set_choosable(3);
  for (std::int64_t seq = 0; seq < 2; ++seq) decoder.set_sampling(seq, flat[static_cast<std::size_t>(seq)].settings);
  decoder.prefill(prompts_of(flat));
  for (int step = 0; step < 6; ++step) {
    for (const std::int32_t id : decoder.take_choices()) EXPECT_LT(id, 3);
    decoder.decode_chosen();
  }
}

TEST_F(DeviceSampling, AStepThatWasDroppedHasDrawnNothing) {
  for (const auto& [cache, execution] : kEveryCache) {
    const Variant variant = variant_of(cache, execution);
    SCOPED_TRACE(variant_label(variant));
    const std::vector<Ids> expected = hosts_ids(variant, kRagged, 4);
    const auto decoder = device_decoder(variant, kRagged);
    decoder->decode_chosen();
    decoder->drop_newest();  // what to go on from is still on its way to the host
    decoder->decode_chosen();
    EXPECT_EQ(decoder->take_choices(), expected[0]);
    EXPECT_EQ(decoder->take_choices(), expected[1]);
    decoder->decode_chosen();
    decoder->drop_newest();  // the host has taken it
    EXPECT_EQ(decoder->length(0), 6);
    decoder->decode_chosen();
    decoder->decode_chosen();  // and again without the host
    EXPECT_EQ(decoder->take_choices(), expected[2]);
    EXPECT_EQ(decoder->take_choices(), expected[3]);
  }
}

TEST_F(DeviceSampling, ADropThatLeavesNothingToGoOnFromIsRefused) {
  const auto decoder = device_decoder(variant_of(CacheKind::contiguous), kRagged);
  decoder->decode_chosen();
  decoder->decode_chosen();  // nobody took the prompt's choices, and two calls are kept
  decoder->drop_newest();
  decoder->drop_newest();
  EXPECT_THROW(decoder->decode_chosen(), std::logic_error);
}

TEST_F(DeviceSampling, LogitsWithoutAChoiceAreAnErrorAlsoWhenTheNextStepIsUnderWay) {
  for (const ExecutionKind execution : {ExecutionKind::eager, ExecutionKind::graph}) {
    for (const double temperature : {0.0, 1.0}) {
      const Variant variant = variant_of(CacheKind::contiguous, execution);
      model_ = std::make_unique<Transformer>(ops_, std::make_shared<SpoiltWeights>(), variant);
      const SamplingSettings settings{temperature, 0, 1.0};
      const auto decoder = device_decoder(variant, {{{1, 2}, settings, 1}, {{3, kSpoiltToken}, settings, 2}});
      decoder->decode_chosen();  // looks up an id that is none
      try {
        decoder->take_choices();
        ADD_FAILURE() << "took an id at temperature " << temperature;
      } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), HasSubstr("sequence 1: a logit is NaN"));
        EXPECT_THAT(error.what(), HasSubstr("the forward pass went wrong"));
      }
      decoder->drop_newest();
      EXPECT_THROW(decoder->take_choices(), std::runtime_error)
          << "dropping a step does not make the one before it good";
    }
  }
}

TEST_F(DeviceSampling, WithoutACacheLogitsWithoutAChoiceStopTheNextStep) {
  const Variant variant = variant_of(CacheKind::none);
  model_ = std::make_unique<Transformer>(ops_, std::make_shared<SpoiltWeights>(), variant);
  const auto decoder = device_decoder(variant, {{{kSpoiltToken}, {1.0, 0, 1.0}, 1}});
  EXPECT_THROW(decoder->decode_chosen(), std::runtime_error);
  EXPECT_THROW(decoder->take_choices(), std::runtime_error);
}

TEST_F(DeviceSampling, WrongSettingsAreRefused) {
  const Variant variant = variant_of(CacheKind::contiguous);
  Decoder decoder(model(variant), variant, 1, 24);
  EXPECT_THROW(decoder.set_sampling(0, {-1.0, 0, 1.0}), InputError);
  EXPECT_THROW(decoder.set_sampling(0, {1.0, 0, 1.5}), InputError);
  EXPECT_THROW(decoder.set_sampling(1, {}), std::out_of_range);
}

/// Generations of one model on the device and on the host.
class SampledGeneration : public DeviceSampling {
 protected:
  /// Ends early where `eos` is given; from token 3 on by other settings where they are given.
  Ids tokens(SamplingKind sampling, const SamplingSettings& settings, std::uint64_t seed, Ids eos = {},
             const std::optional<SamplingSettings>& later = {}, ExecutionKind execution = ExecutionKind::eager) {
    Variant variant = variant_of(CacheKind::paged, execution);
    variant.sampling = sampling;
    Decoder decoder(model(variant), variant, 1, 100);
    GenerationSettings generation_settings;
    generation_settings.sampling = settings;
    generation_settings.max_new_tokens = 6;
    generation_settings.keep_prompt_logits = false;
    Generation generation(decoder, nullptr, prompt_, std::move(eos), seed, generation_settings);
    while (generation.step()) {
      if (!later || generation.tokens().size() != 3) continue;
      generation_settings.sampling = *later;
      generation.change(generation_settings);
    }
    EXPECT_EQ(decoder.length(0), std::ssize(prompt_) + std::ssize(generation.tokens()) -
                                     (generation.stop_reason() == StopReason::eos ? 0 : 1));
    return generation.tokens();
  }

  Ids prompt_ = {1, 2, 3};
};

TEST_F(SampledGeneration, OfAGoldenModelGivesTheHostsTokens) {
  const GoldenModel golden = load_golden("llama-gqa");
  prompt_ = golden.prompt;
  model_ = std::make_unique<Transformer>(ops_, golden.checkpoint.weights, variant_of(CacheKind::paged));
  const Ids greedy(golden.greedy.begin(), golden.greedy.begin() + 6);
  std::uint64_t seed = 20;
  ExecutionKind execution = ExecutionKind::eager;
  for (const SamplingSettings& settings : {SamplingSettings{5.0, 50, 0.9}, SamplingSettings{3.0, 0, 1.0}}) {
    const Ids on_device = tokens(SamplingKind::device, settings, ++seed, {}, {}, execution);
    EXPECT_EQ(on_device, tokens(SamplingKind::host, settings, seed, {}, {}, execution));
    EXPECT_NE(on_device, greedy) << "settings that change nothing prove nothing";
    execution = ExecutionKind::graph;
  }
}

TEST_F(SampledGeneration, GivesTheHostsTokensForEverySettingAndSeed) {
  std::uint64_t seed = 30;
  for (const SamplingSettings& settings :
       {SamplingSettings{0.7, 0, 1.0}, SamplingSettings{1.5, 20, 1.0}, SamplingSettings{3.0, 0, 0.8}}) {
    ++seed;
    EXPECT_EQ(tokens(SamplingKind::device, settings, seed), tokens(SamplingKind::host, settings, seed))
        << "temperature " << settings.temperature << ", top-k " << settings.top_k << ", top-p " << settings.top_p;
  }
}

TEST_F(SampledGeneration, ChangedSettingsHoldForTheStepThatRanAhead) {
  const SamplingSettings hot{4.0, 0, 1.0};
  const SamplingSettings cold{1.0, 10, 0.9};
  for (const auto& [first, later] : {std::pair(hot, cold), std::pair(SamplingSettings{}, hot)}) {
    const Ids expected = tokens(SamplingKind::host, first, 5, {}, later);
    EXPECT_EQ(tokens(SamplingKind::device, first, 5, {}, later), expected);
    EXPECT_NE(tokens(SamplingKind::device, first, 5), expected) << "the change changed nothing";
  }
}

TEST_F(SampledGeneration, EndsWhereTheHostWould) {
  const SamplingSettings settings{4.0, 0, 1.0};
  const Ids all = tokens(SamplingKind::host, settings, 6);
  const Ids cut = tokens(SamplingKind::device, settings, 6, {all[4]});
  EXPECT_EQ(cut, Ids(all.begin(), std::find(all.begin(), all.end(), all[4])));
}

}  // namespace
}  // namespace kvlab::testing
