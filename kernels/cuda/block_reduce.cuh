// Sums and maxima over a whole block: a butterfly in each warp, then one over the warps' results.
#pragma once

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp_ops.cuh"

namespace kvlab::cuda {

/// The sum over all threads of the block, for each of them. `partials` [n_warps] is scratch, free again after the next
/// barrier. All threads call it.
template <int n_warps>
KVLAB_DEVICE float block_sum(float value, SharedArray<float, n_warps>& partials) {
  static_assert(n_warps <= kWarpSize && (n_warps & (n_warps - 1)) == 0);
  const float of_warp = group_sum<kWarpSize>(value);
  store_shared_if(lane_id() == 0, partials.at(warp_id()), of_warp);
  block_barrier();
  return group_sum<n_warps>(load_shared(partials.at(lane_id() % n_warps)));
}

/// The maximum over all threads of the block, for each of them, under the same rules. NaN only where all values are
/// NaN.
template <int n_warps>
KVLAB_DEVICE float block_max(float value, SharedArray<float, n_warps>& partials) {
  static_assert(n_warps <= kWarpSize && (n_warps & (n_warps - 1)) == 0);
  const float of_warp = group_max<kWarpSize>(value);
  store_shared_if(lane_id() == 0, partials.at(warp_id()), of_warp);
  block_barrier();
  return group_max<n_warps>(load_shared(partials.at(lane_id() % n_warps)));
}

}  // namespace kvlab::cuda
