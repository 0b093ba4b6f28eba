// The tiny checkpoints of tests/golden with the answers of an independent float64 program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/decoder.h"
#include "model/transformer.h"

namespace kvlab::testing {

struct GoldenModel {
  std::string name;
  Checkpoint checkpoint;
  std::vector<std::int32_t> prompt;
  std::vector<double> logits_last;   // [vocab_size] after the prompt
  std::vector<std::int32_t> greedy;  // the tokens that follow
};

/// "llama-gqa", "llama-mha", "llama-mqa-tied", "llama-rope3", "qwen2-gqa", "qwen3-gqa", "gpt2".
const std::vector<std::string>& golden_names();
GoldenModel load_golden(const std::string& name);

/// One thread: tests run side by side.
std::shared_ptr<Operations> test_operations();

/// The worst |a - b|; infinite when a number is NaN.
double worst_difference(std::span<const float> values, std::span<const double> expected);

std::int32_t greedy_choice(std::span<const float> logits);

/// Prefills `prompt` and decodes `n` tokens greedily, or feeds `forced` where it is not empty. Returns the choices;
/// `prompt_logits` receives those of the prompt's last row.
std::vector<std::int32_t> run_greedy(Decoder& decoder, const std::vector<std::int32_t>& prompt, std::int64_t n,
                                     std::vector<float>* prompt_logits = nullptr);

/// A small synthetic shape, for what the goldens do not have.
ModelConfig small_config();

}  // namespace kvlab::testing
