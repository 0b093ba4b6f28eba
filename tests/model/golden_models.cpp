#include "tests/model/golden_models.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace kvlab::testing {

const std::vector<std::string>& golden_names() {
  static const std::vector<std::string> names = {"llama-gqa", "llama-mha", "llama-mqa-tied", "llama-rope3", "qwen2-gqa",
                                                 "qwen3-gqa", "gpt2"};
  return names;
}

GoldenModel load_golden(const std::string& name) {
  const std::string folder = std::string(KVLAB_SOURCE_DIR) + "/tests/golden/" + name;
  std::ifstream stream(folder + "/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(stream);
  return {name, open_checkpoint(folder, Need::weights), expected.at("prompt_ids").get<std::vector<std::int32_t>>(),
          expected.at("logits_last").get<std::vector<double>>(),
          expected.at("greedy").get<std::vector<std::int32_t>>()};
}

std::shared_ptr<Operations> test_operations() {
  static const std::shared_ptr<Operations> ops = make_cpu_operations(1);
  return ops;
}

double worst_difference(std::span<const float> values, std::span<const double> expected) {
  double worst = values.size() == expected.size() ? 0.0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(values.size(), expected.size()); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - expected[i]);
    if (!(difference <= worst)) worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
  }
  return worst;
}

std::int32_t greedy_choice(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<std::int32_t> run_greedy(Decoder& decoder, const std::vector<std::int32_t>& prompt, std::int64_t n,
                                     std::vector<float>* prompt_logits) {
  decoder.prefill(std::span(&prompt, 1));
  if (prompt_logits != nullptr) prompt_logits->assign(decoder.logits(0).begin(), decoder.logits(0).end());
  std::vector<std::int32_t> tokens = {greedy_choice(decoder.logits(0))};
  while (static_cast<std::int64_t>(tokens.size()) < n) {
    decoder.decode(std::span(&tokens.back(), 1));
    tokens.push_back(greedy_choice(decoder.logits(0)));
  }
  return tokens;
}

ModelConfig small_config() {
  ModelConfig config;
  config.name = "small";
  config.architecture = "llama";
  config.n_layers = 2;
  config.n_heads = 6;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  config.hidden = 48;  // not n_heads * head_dim: the explicit head_dim wins
  config.ffn_hidden = 80;
  config.vocab_size = 97;
  config.context_length = 128;
  return config;
}

}  // namespace kvlab::testing
