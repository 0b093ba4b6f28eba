// f32 products by oneDNN: weights packed once in the layout that oneDNN asks for, one prepared product per shape.
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/packed_matrix.h"

namespace kvlab::cpu {

/// Packs matrices and owns the prepared products that matrices of one shape share. Outlives its matrices' use.
/// Preparing a product costs 0.05 to 0.3 ms for each new number of rows (or stride, or bias / accumulate choice).
class F32Products {
 public:
  F32Products();
  ~F32Products();

  std::unique_ptr<CpuMatrix> pack(const HostMatrix& weight);

  /// oneDNN's name of the implementation that a dense product of `n_rows` rows would use: "ref..." means a slow one.
  std::string implementation(std::int64_t n_out, std::int64_t n_in, std::int64_t n_rows);
  /// Products now prepared.
  std::size_t n_prepared() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace kvlab::cpu
