#include "kernels/cuda/backend/prefill_attention.h"

namespace kvlab::cuda {

bool prefill_takes(const AttentionArgs& args) {
  return args.kv.dtype == DType::bf16 && most_queries(args.seqs) > 1 && prefill_instance_dim(args.head_dim) != 0;
}

PrefillAttention::PrefillAttention(HostMirror& mirror, const AttentionArgs& args) {
  call_.n_seqs = static_cast<std::int64_t>(args.seqs.size());
  call_.n_heads = args.n_heads;
  call_.n_kv_heads = args.n_kv_heads;
  call_.head_dim = args.head_dim;
  call_.window = args.window;
  call_.scale = args.scale;
  call_.q = args.q;
  call_.q_stride = args.q_stride;
  call_.out = args.out;
  call_.out_stride = args.out_stride;
  call_.kv = mirror.copy_of(args.kv, args.seqs.size());
  call_.seqs = mirror.copy_of(args.seqs);
  call_.max_queries = most_queries(args.seqs);
}

}  // namespace kvlab::cuda
