// The instances of decode attention on tensor cores.
#include "kernels/cuda/attention_decode_instances.h"
#include "kernels/cuda/attention_decode_matrix.cuh"

namespace kvlab::cuda {

namespace {

template <int dim>
DecodeInstance<Bf16> instance() {
  return {attention_decode_matrix_kernel<dim>, MatrixDecodeTiles<dim>::kBlock, sizeof(MatrixDecodeStorage<dim>)};
}

}  // namespace

DecodeInstance<Bf16> tensor_cores_instance(const DecodeKernel& kernel) {
  switch (kernel.instance_dim) {
    case 32:
      return instance<32>();
    case 64:
      return instance<64>();
    case 96:
      return instance<96>();
    case 128:
      return instance<128>();
    default:
      return instance<256>();
  }
}

}  // namespace kvlab::cuda
