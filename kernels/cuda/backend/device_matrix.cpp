#include "kernels/cuda/backend/device_matrix.h"

#include <stdexcept>
#include <utility>

#include "kernels/cuda/fill_random.h"

namespace kvlab::cuda {
namespace {

std::int64_t rows_of(std::span<const RandomRows> parts) {
  std::int64_t n = 0;
  for (const RandomRows& part : parts) n += part.n_rows;
  return n;
}

}  // namespace

DeviceMatrix::DeviceMatrix(std::shared_ptr<DeviceContext> context, const HostMatrix& weight, DType storage,
                           const std::string& name)
    : context_(std::move(context)),
      n_out_(weight.rows),
      n_in_(weight.cols),
      dtype_(storage),
      memory_(*context_, weight.values.size() * dtype_bytes(storage), name) {
  if (static_cast<std::int64_t>(weight.values.size()) != n_out_ * n_in_ || weight.values.empty()) {
    throw std::invalid_argument("cannot pack a weight of " + std::to_string(n_out_) + " x " + std::to_string(n_in_) +
                                " with " + std::to_string(weight.values.size()) + " values");
  }
  if (storage == DType::f32) {
    context_->upload(memory_.data(), weight.values.data(), memory_.bytes());
    return;
  }
  std::vector<Bf16> rounded;
  rounded.reserve(weight.values.size());
  for (const float value : weight.values) rounded.push_back(bf16_from_float(value));
  context_->upload(memory_.data(), rounded.data(), memory_.bytes());
}

DeviceMatrix::DeviceMatrix(std::shared_ptr<DeviceContext> context, std::span<const RandomRows> parts, std::int64_t n_in,
                           DType storage, const std::string& name)
    : context_(std::move(context)),
      n_out_(rows_of(parts)),
      n_in_(n_in),
      dtype_(storage),
      memory_(*context_, static_cast<std::size_t>(n_out_ * n_in) * dtype_bytes(storage), name) {
  std::int64_t first = 0;  // element of the part under way
  for (const RandomRows& part : parts) {
    const std::int64_t n = part.n_rows * n_in;
    if (storage == DType::f32) {
      launch_fill_random(part.values, 0, n, static_cast<float*>(memory_.data()) + first, context_->stream());
    } else {
      launch_fill_random(part.values, 0, n, static_cast<Bf16*>(memory_.data()) + first, context_->stream());
    }
    first += n;
  }
}

const DeviceMatrix& device_matrix(const PackedMatrix& weight) {
  const auto* matrix = dynamic_cast<const DeviceMatrix*>(&weight);
  if (matrix == nullptr) throw std::invalid_argument("the matrix was not packed by the CUDA backend");
  return *matrix;
}

}  // namespace kvlab::cuda
