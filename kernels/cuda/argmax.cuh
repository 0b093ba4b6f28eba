// The body of greedy sampling: a block takes a row of logits.
#pragma once

#include <cstdint>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp_ops.cuh"
#include "kernels/sampling.h"

namespace kvlab::cuda {

constexpr int kArgmaxBlock = 256;

/// A finite logit and its id as one number that is larger for a larger logit, and of equal ones for the lower id.
using Choice = unsigned long long;
constexpr Choice kNever = 0;         // -inf: below every choice
constexpr Choice kNotOne = ~kNever;  // NaN or +inf: above

struct ArgmaxStorage {
  SharedArray<Choice, kArgmaxBlock / kWarpSize> best;  // of each warp
};

KVLAB_DEVICE Choice choice_of(float logit, std::int32_t id) {
  const std::uint32_t bits = bits_of(logit + 0.0F);  // -0 is 0
  if (bits == 0xFF800000U) return kNever;
  if ((bits & 0x7FFFFFFFU) >= 0x7F800000U) return kNotOne;
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<Choice>(ordered) << 32 | (0xFFFFFFFFU - static_cast<std::uint32_t>(id));
}

KVLAB_DEVICE Choice best_of_warp(Choice choice) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    const Choice other = shuffle_xor(choice, distance);
    choice = other > choice ? other : choice;
  }
  return choice;
}

/// ids[r] = the first column of the largest value of row r, or kNoChoice.
/// Grid: n_rows blocks; block: kArgmaxBlock threads; shared: ArgmaxStorage. Reads every logit once, neighbours by
/// neighbours.
KVLAB_KERNEL void argmax_kernel(Global<const float> logits,  // [n_rows, n_choices], stride apart
                                std::int64_t stride, std::int32_t n_choices,
                                Global<std::int32_t> ids) {  // [n_rows]
  auto& shared = shared_storage<ArgmaxStorage>();
  const Global<const float> row = logits + block_x() * stride;
  wait_for_previous_launch();
  Choice best = kNever;
  for (std::int32_t first = 0; first < n_choices; first += kArgmaxBlock) {
    const std::int32_t id = first + thread_x();
    const float logit = load_global_if(id < n_choices, row + id, 0.0F);
    const Choice choice = id < n_choices ? choice_of(logit, id) : kNever;
    best = choice > best ? choice : best;
  }
  best = best_of_warp(best);
  store_shared_if(lane_id() == 0, shared.best.at(warp_id()), best);
  block_barrier();
  constexpr int kWarps = kArgmaxBlock / kWarpSize;
  best = best_of_warp(load_shared(shared.best.at(lane_id() % kWarps)));
  const bool has_choice = best != kNever && best != kNotOne;
  store_global_if(thread_x() == 0, ids + block_x(),
                  has_choice ? static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(best)) : kNoChoice);
}

}  // namespace kvlab::cuda
