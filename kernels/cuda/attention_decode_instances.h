// The instances of decode attention's kernels, made in one file for each path, for the launcher. Includes no CUDA
// header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/decode_kernel.h"

namespace kvlab::cuda {

template <typename T>
struct DecodeParams;

/// A kernel and what its launch asks for.
template <typename T>
struct DecodeInstance {
  void (*kernel)(DecodeParams<T>) = nullptr;
  std::int64_t block_size = 0;
  std::size_t shared_bytes = 0;
};

DecodeInstance<float> cuda_cores_instance_f32(const DecodeKernel& kernel);
DecodeInstance<Bf16> cuda_cores_instance_bf16(const DecodeKernel& kernel);
DecodeInstance<Bf16> tensor_cores_instance(const DecodeKernel& kernel);

}  // namespace kvlab::cuda
