// K and V by formula, for decoding at a depth that nobody prefilled: an element depends on layer, sequence, KV head,
// position and component, and never on where a cache keeps it.
#pragma once

#include <cstdint>

#include "kernels/random.h"

namespace kvlab {

/// K and V of one layer.
struct RandomKv {
  RandomValues k;
  RandomValues v;
  std::int64_t first_seq = 0;      // which of the formula's sequences the view's first one is
  std::int64_t heads_per_row = 1;  // neighbouring KV heads that share their values, as replicated heads do
};

/// The streams of layer `layer`. Mean 0 and deviation 1, as projected activations have: scores then have the spread of
/// a layer's own, neither flat nor one-hot.
constexpr RandomKv random_kv(std::uint64_t seed, std::int64_t layer) {
  const std::uint64_t of_seed = scattered(scattered(seed) ^ 0x6b765f66696c6cU);
  const auto side = [&](std::uint64_t which) {
    return RandomValues{scattered(of_seed + 2 * static_cast<std::uint64_t>(layer) + which), 0.0, 1.0};
  };
  return {side(0), side(1)};
}

/// The number of component 0 of a row in both streams. Distinct for up to 2^26 positions, 2^12 KV heads and a head_dim
/// of up to 2^8 of as many sequences as the rest of 64 bits counts.
KVLAB_HOST_DEVICE inline std::uint64_t random_kv_row(const RandomKv& kv, std::int64_t seq, std::int64_t kv_head,
                                                     std::int64_t pos, std::int64_t head_dim) {
  const std::int64_t row = ((kv.first_seq + seq) << 12) + kv_head / kv.heads_per_row;
  return static_cast<std::uint64_t>(((row << 26) + pos) * head_dim);
}

}  // namespace kvlab
