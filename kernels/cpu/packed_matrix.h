// What the CPU backend's packed weights offer to its own operation table.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/task.h"
#include "kernels/operations.h"

namespace kvlab::cpu {

struct ProductArgs {
  const float* x = nullptr;  // [n_rows, n_in], rows x_stride apart
  std::int64_t x_stride = 0;
  std::int64_t n_rows = 0;
  float* y = nullptr;  // [n_rows, n_out], rows y_stride apart
  std::int64_t y_stride = 0;
  const float* bias = nullptr;  // [n_out] or null
  bool accumulate = false;      // y += instead of y =
};

class CpuMatrix : public PackedMatrix {
 public:
  /// y = x W^T (+ bias) (+ y). n_rows >= 1; x and y do not overlap.
  virtual void multiply(const ProductArgs& args, int n_threads) const = 0;
  /// The same product for a recorded graph, cut by output features. The matrix outlives the task.
  virtual std::unique_ptr<Task> record(const ProductArgs& args, int n_threads) const = 0;
};

}  // namespace kvlab::cpu
