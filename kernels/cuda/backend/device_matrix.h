// A weight in device memory, row by row, rounded to its storage type.
#pragma once

#include <memory>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/operations.h"

namespace kvlab::cuda {

class DeviceMatrix final : public PackedMatrix {
 public:
  /// Uploads the weight. `name` is what errors call it.
  DeviceMatrix(std::shared_ptr<DeviceContext> context, const HostMatrix& weight, DType storage,
               const std::string& name);
  /// Draws it on the device, part below part.
  DeviceMatrix(std::shared_ptr<DeviceContext> context, std::span<const RandomRows> parts, std::int64_t n_in,
               DType storage, const std::string& name);

  std::int64_t n_out() const override { return n_out_; }
  std::int64_t n_in() const override { return n_in_; }
  DType dtype() const override { return dtype_; }
  /// [n_out, n_in] of dtype.
  const void* data() const { return memory_.data(); }

 private:
  std::shared_ptr<DeviceContext> context_;
  std::int64_t n_out_;
  std::int64_t n_in_;
  DType dtype_;
  DeviceMemory memory_;
};

/// Throws std::invalid_argument for a matrix of another backend.
const DeviceMatrix& device_matrix(const PackedMatrix& weight);

}  // namespace kvlab::cuda
