// Launches the copying of rows.
#include "kernels/cuda/copy_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

namespace {

template <typename Out>
void launch_for(const float* x, std::int64_t x_stride, const std::int64_t* rows, std::int64_t n_rows,
                std::int64_t width, Out* out, std::int64_t out_stride, CUstream_st* stream) {
  if (n_rows * width == 0) return;  // a launch of no blocks is an error
  const bool wide =
      width % 4 == 0 && x_stride % 4 == 0 && out_stride % 4 == 0 && is_aligned_to_16(x) && is_aligned_to_16(out);
  launch("copy_rows", wide ? copy_rows_kernel<Out, 4> : copy_rows_kernel<Out, 1>,
         {.n_blocks = n_rows, .block_size = kCopyRowsBlock, .overlaps_previous = true}, stream, x, x_stride, rows,
         width, out, out_stride);
}

}  // namespace

void launch_copy_rows(const float* x, std::int64_t x_stride, const std::int64_t* rows, std::int64_t n_rows,
                      std::int64_t width, float* out, std::int64_t out_stride, CUstream_st* stream) {
  launch_for(x, x_stride, rows, n_rows, width, out, out_stride, stream);
}

void launch_copy_rows(const float* x, std::int64_t x_stride, const std::int64_t* rows, std::int64_t n_rows,
                      std::int64_t width, Bf16* out, std::int64_t out_stride, CUstream_st* stream) {
  launch_for(x, x_stride, rows, n_rows, width, out, out_stride, stream);
}

}  // namespace kvlab::cuda
