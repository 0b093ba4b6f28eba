// What a backend may leave out. It says so, or the caller finds another way.
#include "kernels/operations.h"

#include "kernels/error.h"

namespace kvlab {

std::unique_ptr<PackedMatrix> Operations::pack_random_matrix(std::span<const RandomRows> /*parts*/,
                                                             std::int64_t /*n_in*/, DType /*storage*/) {
  return nullptr;
}

std::unique_ptr<PackedMatrix> Operations::pack_random_table(std::span<const RandomRows> /*parts*/,
                                                            std::int64_t /*n_in*/, DType /*storage*/) {
  return nullptr;
}

void Operations::fill_kv(const RandomKv& /*values*/, std::int64_t /*n_seqs*/, std::int64_t /*n_tokens*/,
                         std::int64_t /*n_kv_heads*/, std::int64_t /*head_dim*/, const KvView& /*view*/) {
  throw InputError("kv_fill 'random': this backend cannot fill a cache; use kv_fill prefill");
}

void Operations::begin_recording() { throw InputError("execution 'graph': this backend runs operations eagerly only"); }

void Operations::name_recorded(std::string_view /*name*/, std::int64_t /*layer*/) {}

std::unique_ptr<RecordedGraph> Operations::end_recording() { return nullptr; }

}  // namespace kvlab
