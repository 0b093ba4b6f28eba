// Launches the collection of a sequence's K or V.
#include "kernels/cuda/collect_kv.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace kvlab::cuda {

namespace {

template <typename T>
void launch_for(KvView view, const void* rows, std::int64_t seq, std::int64_t n_kv_heads, std::int64_t kv_len,
                std::int64_t head_dim, void* out, CUstream_st* stream) {
  constexpr int kWide = 16 / sizeof(T);
  view.k = const_cast<void*>(rows);
  const bool wide = head_dim % kWide == 0 && view.page_stride % kWide == 0 && view.head_stride % kWide == 0 &&
                    view.slot_stride % kWide == 0 && is_aligned_to_16(rows) && is_aligned_to_16(out);
  launch("collect_kv", wide ? collect_kv_kernel<T, kWide> : collect_kv_kernel<T, 1>,
         {kv_len, kCollectKvBlock, n_kv_heads, 1, 0, true}, stream, device_kv_view<const T>(view),
         static_cast<int>(seq), static_cast<int>(kv_len), static_cast<int>(head_dim), static_cast<T*>(out));
}

}  // namespace

void launch_collect_kv(const KvView& kv, const void* rows, std::int64_t seq, std::int64_t n_kv_heads,
                       std::int64_t kv_len, std::int64_t head_dim, void* out, CUstream_st* stream) {
  if (kv_len * n_kv_heads == 0) return;  // a launch of no blocks is an error
  if (kv.dtype == DType::f32) {
    launch_for<float>(kv, rows, seq, n_kv_heads, kv_len, head_dim, out, stream);
  } else {
    launch_for<Bf16>(kv, rows, seq, n_kv_heads, kv_len, head_dim, out, stream);
  }
}

}  // namespace kvlab::cuda
