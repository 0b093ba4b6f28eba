// Row lookup: token and position embeddings, and rows picked out of activations.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/rows.h"
#include "kernels/sampling.h"

namespace kvlab::cpu {
namespace {

class Table final : public PackedMatrix {
 public:
  Table(const HostMatrix& table, DType storage)
      : n_rows_(table.rows),
        width_(table.cols),
        dtype_(storage),
        storage_(static_cast<std::size_t>(n_rows_ * width_) * dtype_bytes(storage)) {
    const std::int64_t n_values = n_rows_ * width_;
    if (dtype_ == DType::f32) {
      std::copy_n(table.values.data(), n_values, static_cast<float*>(storage_.data()));
    } else {
      std::transform(table.values.data(), table.values.data() + n_values, static_cast<Bf16*>(storage_.data()),
                     bf16_from_float);
    }
    data_ = storage_.data();
  }

  std::int64_t n_out() const override { return n_rows_; }
  std::int64_t n_in() const override { return width_; }
  DType dtype() const override { return dtype_; }

  void read_row(std::int64_t row, float* out, bool accumulate) const {
    if (dtype_ == DType::f32) {
      const float* values = static_cast<const float*>(data_) + row * width_;
      for (std::int64_t j = 0; j < width_; ++j) out[j] = values[j] + (accumulate ? out[j] : 0.0F);
    } else {
      const Bf16* values = static_cast<const Bf16*>(data_) + row * width_;
      for (std::int64_t j = 0; j < width_; ++j) out[j] = bf16_to_float(values[j]) + (accumulate ? out[j] : 0.0F);
    }
  }

 private:
  std::int64_t n_rows_;
  std::int64_t width_;
  DType dtype_;
  AlignedBuffer storage_;  // [n_rows, width] of dtype
  const void* data_ = nullptr;
};

}  // namespace

std::unique_ptr<PackedMatrix> pack_table(const HostMatrix& table, DType storage) {
  return std::make_unique<Table>(table, storage);
}

void check_table(const PackedMatrix& table) {
  if (dynamic_cast<const Table*>(&table) == nullptr) {
    throw std::invalid_argument("embed: the matrix was not packed by pack_table");
  }
}

void embed(const PackedMatrix& table, std::span<const std::int32_t> ids, float* out, bool accumulate) {
  const auto& rows = static_cast<const Table&>(table);
  for (const std::int32_t id : ids) {
    if (id == kNoChoice) {
      std::fill_n(out, rows.n_in(), std::numeric_limits<float>::quiet_NaN());
    } else {
      rows.read_row(id, out, accumulate);
    }
    out += rows.n_in();
  }
}

void gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows, std::int64_t width,
                 float* dst, std::int64_t dst_stride) {
  for (const std::int64_t row : rows) {
    std::copy_n(src + row * src_stride, width, dst);
    dst += dst_stride;
  }
}

}  // namespace kvlab::cpu
