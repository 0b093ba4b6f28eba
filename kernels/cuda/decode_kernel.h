// Which kernel runs a step of decode attention, as a function of its shape alone: CUDA cores or tensor cores, the
// instance's head size, and how many query heads share one reading of K and V. decode_plan.h cuts the work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/cuda/host_device.h"
#include "kernels/dtype.h"
#include "kernels/error.h"

namespace kvlab::cuda {

constexpr int kDecodeWarps = 4;           // of a block on CUDA cores
constexpr int kDecodeStages = 3;          // steps whose K and V are in shared memory or on their way there
constexpr int kDecodeLaneComponents = 8;  // of a row of K or V that one lane holds, on CUDA cores
constexpr int kDecodeLaneChunks = 4;      // 16-byte pieces of K, and of V, that such a lane takes in a step
constexpr int kMaxDecodeHeadDim = 256;
constexpr int kMatrixHeads = 16;                     // rows of a matrix operand: query heads that share a pass
constexpr std::int64_t kLeastGroupForMatrix = 4;     // query heads a KV head; below it tensor cores would idle
constexpr std::int64_t kMaxGridRows = 65535;         // blocks along y and z
constexpr std::int64_t kMaxDecodeRows = 1 << 24;     // n_seqs * n_kv_heads * n_passes: tiles are counted in 32 bits
constexpr std::int64_t kMaxDecodeWorkers = 1 << 16;  // far beyond any device
constexpr std::int64_t kMaxDecodeKeys = std::numeric_limits<std::int32_t>::max() / 2;

/// One query row for each sequence.
struct DecodeShape {
  std::int64_t n_seqs = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;  // a multiple of 8, at most 256
  std::int64_t window = 0;    // 0: none; otherwise the last so many keys are seen
  DType dtype = DType::f32;   // of K and V
};

enum class DecodePath { cuda_cores, tensor_cores };

struct DecodeKernel {
  DecodePath path = DecodePath::cuda_cores;
  int instance_dim = 0;     // 32, 64, 128 or 256; on tensor cores also 96
  int heads_per_pass = 0;   // query heads that share one reading of K and V: 1, 2 or 4; on tensor cores 16
  int n_passes = 0;         // times that K and V of a KV head are read: ceil(group / heads_per_pass)
  std::int32_t n_rows = 0;  // of a sequence: n_kv_heads * n_passes
  int tile_keys = 0;        // keys that a block takes in one step, over all its warps
};

/// Keys of a tile on CUDA cores.
KVLAB_HOST_DEVICE constexpr int decode_tile_keys(int instance_dim, std::size_t element_bytes) {
  const int lanes_per_key = instance_dim / kDecodeLaneComponents;
  const int chunks_per_key = kDecodeLaneComponents * static_cast<int>(element_bytes) / 16;
  return kDecodeWarps * (32 / lanes_per_key) * (kDecodeLaneChunks / chunks_per_key);
}

/// Warps of a block on tensor cores: fewer where rows are long, so that two blocks fit an SM.
KVLAB_HOST_DEVICE constexpr int matrix_decode_warps(int instance_dim) { return instance_dim > 128 ? 2 : 4; }
/// Keys of a warp in one step on tensor cores.
KVLAB_HOST_DEVICE constexpr int matrix_decode_warp_keys(int instance_dim) { return instance_dim > 64 ? 16 : 32; }

/// Throws InputError when no kernel can run the shape.
inline void check_decode_shape(const DecodeShape& shape) {
  if (shape.head_dim < 8 || shape.head_dim > kMaxDecodeHeadDim || shape.head_dim % 8 != 0) {
    throw InputError("decode attention on CUDA: head_dim is " + std::to_string(shape.head_dim) +
                     "; it takes multiples of 8 up to " + std::to_string(kMaxDecodeHeadDim) +
                     "; use --decode-attention naive");
  }
  if (shape.n_kv_heads < 1 || shape.n_heads < 1 || shape.n_heads % shape.n_kv_heads != 0) {
    throw InputError("decode attention on CUDA: " + std::to_string(shape.n_heads) + " heads cannot share " +
                     std::to_string(shape.n_kv_heads) + " KV heads evenly");
  }
  if (shape.n_seqs < 0 || shape.n_seqs > kMaxGridRows) {
    throw InputError("decode attention on CUDA: a batch of " + std::to_string(shape.n_seqs) + "; it takes at most " +
                     std::to_string(kMaxGridRows));
  }
  if (shape.window < 0 || shape.window > kMaxDecodeKeys) {
    throw InputError("decode attention on CUDA: a window of " + std::to_string(shape.window) + "; it takes 0 to " +
                     std::to_string(kMaxDecodeKeys));
  }
  if (shape.n_heads * std::max<std::int64_t>(shape.n_seqs, 1) > kMaxDecodeRows) {
    throw InputError("decode attention on CUDA: " + std::to_string(shape.n_heads) + " heads for each of " +
                     std::to_string(shape.n_seqs) + " sequences; it takes at most " + std::to_string(kMaxDecodeRows) +
                     " in all");
  }
}

/// Throws InputError when no kernel can run the shape.
inline DecodeKernel decode_kernel(const DecodeShape& shape) {
  check_decode_shape(shape);
  const std::int64_t group = shape.n_heads / shape.n_kv_heads;
  DecodeKernel kernel;
  if (shape.dtype == DType::bf16 && group >= kLeastGroupForMatrix) kernel.path = DecodePath::tensor_cores;
  const bool on_tensor_cores = kernel.path == DecodePath::tensor_cores;
  kernel.instance_dim = 32;
  while (kernel.instance_dim < shape.head_dim) kernel.instance_dim *= 2;
  if (on_tensor_cores && shape.head_dim > 64 && shape.head_dim <= 96) kernel.instance_dim = 96;
  kernel.heads_per_pass = on_tensor_cores ? kMatrixHeads : group <= 2 ? static_cast<int>(group) : 4;
  kernel.n_passes = static_cast<int>((group + kernel.heads_per_pass - 1) / kernel.heads_per_pass);
  kernel.n_rows = static_cast<std::int32_t>(shape.n_kv_heads) * kernel.n_passes;
  kernel.tile_keys = on_tensor_cores
                         ? matrix_decode_warps(kernel.instance_dim) * matrix_decode_warp_keys(kernel.instance_dim)
                         : decode_tile_keys(kernel.instance_dim, dtype_bytes(shape.dtype));
  return kernel;
}

/// Blocks that a device holds at once: the grid of every step.
inline std::int64_t decode_workers(std::int64_t n_multiprocessors, std::int64_t blocks_per_multiprocessor) {
  return std::clamp<std::int64_t>(n_multiprocessors * blocks_per_multiprocessor, 1, kMaxDecodeWorkers);
}

}  // namespace kvlab::cuda
