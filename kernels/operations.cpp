// What a backend may leave out: where the host shares its memory, or where it says so, or the caller finds another way.
#include "kernels/operations.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/error.h"
#include "kernels/sample_row.h"

namespace kvlab {
namespace {

class FinishedCopy final : public PendingCopy {
 public:
  FinishedCopy(const void* from, std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) std::memcpy(bytes_.data(), from, bytes);
  }
  const void* wait() override { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<Buffer> Operations::allocate(std::size_t bytes, std::string_view name) {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc& error) {
    throw OutOfMemory(std::string(name) + ", " + std::to_string(bytes) + " bytes: " + error.what());
  }
}

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

void Operations::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void Operations::download(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::unique_ptr<PendingCopy> Operations::start_download(const void* from, std::size_t bytes) {
  return std::make_unique<FinishedCopy>(from, bytes);
}

std::unique_ptr<TimeMark> Operations::mark() { return nullptr; }

Transfers Operations::transfers() const { return {}; }

void Operations::begin_step() {}

void Operations::argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int32_t n_choices,
                        std::int32_t* ids) {
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const float* values = logits + row * stride;
    float highest = -HUGE_VALF;
    ids[row] = kNoChoice;
    for (std::int32_t id = 0; id < n_choices; ++id) {
      if (values[id] <= highest) continue;  // NaN goes on
      ids[row] = id;
      highest = values[id];
      if (std::isfinite(highest)) continue;
      ids[row] = kNoChoice;
      break;
    }
  }
}

void Operations::sample(const float* logits, std::int64_t stride, std::int32_t n_choices,
                        std::span<const RowSampling> rows, void* /*scratch*/, std::int32_t* ids) {
  for (const RowSampling& row : rows) {
    *ids++ = sample_row({logits, static_cast<std::size_t>(n_choices)}, row);
    logits += stride;
  }
}

std::size_t Operations::sample_scratch_bytes(std::int64_t /*n_rows*/, std::int32_t /*n_choices*/) const { return 0; }

Fusions Operations::fusions() const { return {}; }

void Operations::fused_matmul(const FusedProduct& /*product*/) {
  throw std::logic_error("fused_matmul: this backend fuses no products");
}

void Operations::rope_append(const RopeAppend& /*step*/) {
  throw std::logic_error("rope_append: this backend rotates and appends apart");
}

std::string Operations::product_choices() const { return ""; }

void Operations::begin_recording() { throw InputError("execution 'graph': this backend runs operations eagerly only"); }

void Operations::name_recorded(std::string_view /*name*/, std::int64_t /*layer*/) {}

std::unique_ptr<RecordedGraph> Operations::end_recording() { return nullptr; }

}  // namespace kvlab
