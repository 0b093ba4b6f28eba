// Launches the embedding lookup.
#include "kernels/cuda/embed.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

namespace {

template <typename T>
void launch_for(const T* table, std::int64_t width, const std::int32_t* ids, std::int64_t n_ids, float* out,
                bool accumulate, CUstream_st* stream) {
  if (n_ids * width == 0) return;  // a launch of no blocks is an error
  const bool wide = width % 4 == 0 && is_aligned_to_16(table) && is_aligned_to_16(out);
  launch("embed", wide ? embed_kernel<T, 4> : embed_kernel<T, 1>,
         {.n_blocks = n_ids, .block_size = kEmbedBlock, .overlaps_previous = true}, stream, table, width, ids, out,
         accumulate);
}

}  // namespace

void launch_embed(const float* table, std::int64_t width, const std::int32_t* ids, std::int64_t n_ids, float* out,
                  bool accumulate, CUstream_st* stream) {
  launch_for(table, width, ids, n_ids, out, accumulate, stream);
}

void launch_embed(const Bf16* table, std::int64_t width, const std::int32_t* ids, std::int64_t n_ids, float* out,
                  bool accumulate, CUstream_st* stream) {
  launch_for(table, width, ids, n_ids, out, accumulate, stream);
}

}  // namespace kvlab::cuda
