// Checks a call of prefill attention and launches the instance that runs its head size.
#include <limits>
#include <string>

#include "kernels/cuda/attention_prefill.cuh"
#include "kernels/cuda/attention_prefill.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

constexpr float kLog2E = 1.44269504F;
constexpr std::int64_t kMaxGridSide = 65535;  // blocks along y and z

[[noreturn]] void refuse(const std::string& why) { throw InputError("prefill attention on CUDA: " + why); }

void check_shape(const PrefillCall& call) {
  if (prefill_instance_dim(call.head_dim) == 0) {
    refuse("head_dim is " + std::to_string(call.head_dim) + "; it takes multiples of 8 up to " +
           std::to_string(kMaxPrefillHeadDim) + "; use --prefill-attention naive");
  }
  if (call.n_kv_heads < 1 || call.n_heads < 1 || call.n_heads % call.n_kv_heads != 0) {
    refuse(std::to_string(call.n_heads) + " heads cannot share " + std::to_string(call.n_kv_heads) +
           " KV heads evenly");
  }
  if (call.kv.dtype != DType::bf16) refuse("K and V are f32; it takes bf16; use --kv-dtype bf16");
  if (!(call.scale > 0.0F)) refuse("scale is " + std::to_string(call.scale) + "; it must be above 0");
  if (call.window < 0 || call.window > std::numeric_limits<std::int32_t>::max()) {
    refuse("window is " + std::to_string(call.window) + "; it takes 0 (none) to 2^31 - 1");
  }
  if (call.n_seqs < 0 || call.n_seqs > kMaxGridSide) {
    refuse("a batch of " + std::to_string(call.n_seqs) + "; it takes at most " + std::to_string(kMaxGridSide));
  }
}

void check_alignment(const PrefillCall& call) {
  const KvView& kv = call.kv;
  const bool kv_is_wide = is_aligned_to_16(kv.k) && is_aligned_to_16(kv.v) && kv.page_stride % 8 == 0 &&
                          kv.head_stride % 8 == 0 && kv.slot_stride % 8 == 0;
  const bool rows_are_wide =
      is_aligned_to_16(call.q) && is_aligned_to_16(call.out) && call.q_stride % 4 == 0 && call.out_stride % 4 == 0;
  if (kv_is_wide && rows_are_wide) return;
  refuse(std::string(kv_is_wide ? "q or out" : "K or V") +
         " is not aligned to 16 bytes; align the buffer and its strides");
}

PrefillParams params_of(const PrefillCall& call) {
  PrefillParams params{};
  params.q = call.q;
  params.q_stride = call.q_stride;
  params.out = call.out;
  params.out_stride = call.out_stride;
  params.kv = device_kv_view<const Bf16>(call.kv);
  params.seqs = Global<const SequenceSpan>(call.seqs);
  params.group = static_cast<std::int32_t>(call.n_heads / call.n_kv_heads);
  params.head_dim = static_cast<std::int32_t>(call.head_dim);
  params.window = static_cast<std::int32_t>(call.window);
  params.scale = call.scale * kLog2E;
  return params;
}

template <typename Tile>
void launch_instance(const PrefillCall& call, CUstream_st* stream) {
  const std::int64_t max_rows = call.max_queries * (call.n_heads / call.n_kv_heads);
  const std::int64_t n_tiles = (max_rows + Tile::kRows - 1) / Tile::kRows;
  if (n_tiles > kMaxGridSide) {
    refuse(std::to_string(call.max_queries) + " queries in one sequence; it takes at most " +
           std::to_string(kMaxGridSide * Tile::kRows / (call.n_heads / call.n_kv_heads)) + "; use --prefill-chunk");
  }
  const LaunchShape shape{call.n_kv_heads, Tile::kThreads, call.n_seqs, n_tiles, sizeof(PrefillStorage<Tile>), true};
  launch("attention_prefill", attention_prefill_kernel<Tile>, shape, stream, params_of(call));
}

}  // namespace

void launch_attention_prefill(const PrefillCall& call, CUstream_st* stream) {
  check_shape(call);
  if (call.n_seqs == 0 || call.max_queries <= 0) return;  // a launch of no blocks is an error
  check_alignment(call);
  with_prefill_tile(prefill_instance_dim(call.head_dim),
                    [&]<typename Tile>(Tile) { launch_instance<Tile>(call, stream); });
}

}  // namespace kvlab::cuda
