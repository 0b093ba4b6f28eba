// Launches the drawing of weights and caches.
#include <string>

#include "kernels/cuda/fill_random.cuh"
#include "kernels/cuda/fill_random.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

constexpr std::int64_t kFillBlocks = 4096;  // what one pass of the grid covers is enough to fill any device
constexpr std::int64_t kMostAlongYz = 65535;

/// Elements in 16 bytes.
template <typename T>
constexpr int kWide = static_cast<int>(16 / sizeof(T));

template <typename T>
void fill(const RandomValues& values, std::uint64_t first, std::int64_t n, T* out, CUstream_st* stream) {
  if (n < 0) throw InputError("fill_random: " + std::to_string(n) + " values; give 0 or more");
  if (n == 0) return;  // a launch of no blocks is an error
  const bool wide = n % kWide<T> == 0 && is_aligned_to_16(out);
  const std::int64_t items = wide ? n / kWide<T> : n;
  launch("fill_random", wide ? fill_random_kernel<T, kWide<T>> : fill_random_kernel<T, 1>,
         shape_for(items, kFillBlock, kFillBlocks), stream, values, first, n, out);
}

template <typename T>
void fill_cache(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens, std::int64_t n_kv_heads,
                std::int64_t head_dim, const KvView& view, CUstream_st* stream) {
  const bool wide = head_dim % kWide<T> == 0 && view.head_stride % kWide<T> == 0 && view.slot_stride % kWide<T> == 0 &&
                    is_aligned_to_16(view.k) && is_aligned_to_16(view.v);
  const std::int64_t accesses = n_tokens * (wide ? head_dim / kWide<T> : head_dim);
  const LaunchShape shape{(accesses + kFillBlock - 1) / kFillBlock, kFillBlock, n_kv_heads, n_seqs};
  launch("fill_kv", wide ? fill_kv_kernel<T, kWide<T>> : fill_kv_kernel<T, 1>, shape, stream, values,
         static_cast<int>(n_tokens), static_cast<int>(head_dim), device_kv_view<T>(view));
}

}  // namespace

void launch_fill_random(const RandomValues& values, std::uint64_t first, std::int64_t n, float* out,
                        CUstream_st* stream) {
  fill(values, first, n, out, stream);
}

void launch_fill_random(const RandomValues& values, std::uint64_t first, std::int64_t n, Bf16* out,
                        CUstream_st* stream) {
  fill(values, first, n, out, stream);
}

void launch_fill_kv(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens, std::int64_t n_kv_heads,
                    std::int64_t head_dim, const KvView& view, CUstream_st* stream) {
  if (view.page_table != nullptr && n_tokens > view.pages_per_seq * view.page_size) {
    throw InputError("fill_kv: " + std::to_string(n_tokens) + " tokens; a sequence's pages hold " +
                     std::to_string(view.pages_per_seq * view.page_size));
  }
  if (n_seqs > kMostAlongYz || n_kv_heads > kMostAlongYz) {
    throw InputError("fill_kv: " + std::to_string(n_seqs) + " sequences of " + std::to_string(n_kv_heads) +
                     " KV heads; at most 65535 of either: fill them in parts");
  }
  if (n_seqs * n_tokens * n_kv_heads * head_dim == 0) return;  // a launch of no blocks is an error
  if (view.dtype == DType::f32) {
    fill_cache<float>(values, n_seqs, n_tokens, n_kv_heads, head_dim, view, stream);
  } else {
    fill_cache<Bf16>(values, n_seqs, n_tokens, n_kv_heads, head_dim, view, stream);
  }
}

}  // namespace kvlab::cuda
