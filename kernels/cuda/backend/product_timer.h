// How long a product takes on the device with its weight out of cache: the stopwatch of product_choice.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/product_choice.h"

namespace kvlab::cuda {

/// Copies of a weight to rotate over, so that each has left L2 when its turn comes: three times the largest L2 of
/// today's devices; of weights so small that launches decide, fewer.
constexpr std::int64_t cold_copies(std::int64_t weight_bytes) {
  constexpr std::int64_t kRotatedBytes = 3 * (std::int64_t{128} << 20);
  constexpr std::int64_t kMostCopies = 1024;
  return std::clamp<std::int64_t>(kRotatedBytes / std::max<std::int64_t>(weight_bytes, 1) + 1, 2, kMostCopies);
}

/// Seconds of one product, the launch's own cost left out: a graph runs over copies of the weight, and the median of
/// several runs counts. Nothing where the runtime has no clock or the copies do not fit. Takes `rounded` as scratch.
std::optional<double> time_product(DeviceContext& context, ScratchMemory& rounded, const ProductShape& shape,
                                   ProductEngine engine);

}  // namespace kvlab::cuda
