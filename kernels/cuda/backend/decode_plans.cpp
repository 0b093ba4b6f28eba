#include "kernels/cuda/backend/decode_plans.h"

namespace kvlab::cuda {
namespace {

bool same(const DecodeShape& a, const DecodeShape& b) {
  return a.n_seqs == b.n_seqs && a.n_heads == b.n_heads && a.n_kv_heads == b.n_kv_heads && a.head_dim == b.head_dim &&
         a.window == b.window && a.dtype == b.dtype;
}

}  // namespace

DecodePlans::Plan DecodePlans::plan_for(const DecodeShape& shape, const SequenceSpan* seqs) {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].seqs == seqs && same(known_[i].shape, shape)) return {memory_[i].get(), false};
  }
  known_.push_back({shape, seqs});
  if (memory_.size() < known_.size()) {
    memory_.push_back(std::make_unique<ScratchMemory>(context_, "plan of decode attention"));
  }
  return {memory_[known_.size() - 1].get(), true};
}

}  // namespace kvlab::cuda
