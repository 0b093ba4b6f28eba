#include "harness/tensor_parallel.h"

#include <fmt/format.h>

#include <numeric>
#include <string>

#include "kernels/error.h"

namespace kvlab {
namespace {

/// "1, 2, 4": the counts that divide both.
std::string common_divisors(std::int64_t a, std::int64_t b) {
  const std::int64_t most = std::gcd(a, b);
  std::string list = "1";
  for (std::int64_t n = 2; n <= most; ++n) {
    if (most % n == 0) list += fmt::format(", {}", n);
  }
  return list;
}

}  // namespace

ModelConfig shard_config(const ModelConfig& config, std::int64_t gpus) {
  if (gpus < 1 || config.n_kv_heads % gpus != 0 || config.ffn_hidden % gpus != 0) {
    throw InputError(fmt::format("--gpus: {} KV heads and an MLP of {} cannot be split evenly over {}; allowed are {}",
                                 config.n_kv_heads, config.ffn_hidden, gpus,
                                 common_divisors(config.n_kv_heads, config.ffn_hidden)));
  }
  ModelConfig shard = config;
  shard.n_heads /= gpus;
  shard.n_kv_heads /= gpus;
  shard.ffn_hidden /= gpus;
  shard.vocab_size = (config.vocab_size + gpus - 1) / gpus;
  return shard;
}

double sent_bytes(const ModelConfig& config, const Variant& variant, std::int64_t rows, std::int64_t logit_rows,
                  std::int64_t gpus) {
  const auto hidden_bytes = static_cast<double>(config.hidden) * sizeof(float);
  const std::int64_t last_layer_rows = prunes_last_layer(variant) ? logit_rows : rows;
  const auto sums = static_cast<double>(rows) * (1 + 2 * static_cast<double>(config.n_layers - 1)) +
                    2 * static_cast<double>(last_layer_rows);
  const double gathered = static_cast<double>(logit_rows) * static_cast<double>(config.vocab_size) * sizeof(float);
  const double others = static_cast<double>(gpus - 1) / static_cast<double>(gpus);
  return others * (2 * sums * hidden_bytes + gathered);
}

}  // namespace kvlab
