// bf16 weights: our own layout and products. oneDNN has no product of bf16 weights with f32 activations.
#pragma once

#include <memory>

#include "kernels/cpu/packed_matrix.h"

namespace kvlab::cpu {

/// Rounds a weight to bf16 in tiles of output features. Products widen the weights in registers and accumulate in f32,
/// each element over n_in in ascending order, whatever the number of rows or threads.
std::unique_ptr<CpuMatrix> pack_bf16(const HostMatrix& weight);

}  // namespace kvlab::cpu
