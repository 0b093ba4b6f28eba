// The instances of decode attention on CUDA cores.
#include "kernels/cuda/attention_decode.cuh"
#include "kernels/cuda/attention_decode_instances.h"

namespace kvlab::cuda {

namespace {

template <typename T, int dim, int heads>
DecodeInstance<T> instance() {
  return {attention_decode_kernel<T, dim, heads>, kDecodeBlock, sizeof(DecodeStorage<T, dim, heads>)};
}

template <typename T, int dim>
DecodeInstance<T> instance_of_heads(int heads_per_pass) {
  switch (heads_per_pass) {
    case 1:
      return instance<T, dim, 1>();
    case 2:
      return instance<T, dim, 2>();
    default:
      return instance<T, dim, 4>();
  }
}

template <typename T>
DecodeInstance<T> instance_of(const DecodeKernel& kernel) {
  switch (kernel.instance_dim) {
    case 32:
      return instance_of_heads<T, 32>(kernel.heads_per_pass);
    case 64:
      return instance_of_heads<T, 64>(kernel.heads_per_pass);
    case 128:
      return instance_of_heads<T, 128>(kernel.heads_per_pass);
    default:
      return instance_of_heads<T, 256>(kernel.heads_per_pass);
  }
}

}  // namespace

DecodeInstance<float> cuda_cores_instance_f32(const DecodeKernel& kernel) { return instance_of<float>(kernel); }
DecodeInstance<Bf16> cuda_cores_instance_bf16(const DecodeKernel& kernel) { return instance_of<Bf16>(kernel); }

}  // namespace kvlab::cuda
