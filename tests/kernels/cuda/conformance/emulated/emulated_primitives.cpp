#include "tests/kernels/cuda/conformance/emulated/emulated_primitives.h"

#include <cstddef>
#include <memory>

#include "kernels/cuda_emulation/runtime.h"
#include "tests/kernels/cuda/conformance/conformance.h"
#include "tests/kernels/cuda/conformance/copies.h"

namespace kvlab::cuda::conformance {
namespace {

struct Emulator {
  emulation::Device device{{.seed = 7}};
  std::unique_ptr<Runtime> runtime = emulation::make_emulated_runtime(device);
};

void multiply(bool f16, int n_cases, const std::uint32_t* a, const std::uint32_t* b, float* d) noexcept {
  const Emulator emulator;
  Runtime& runtime = *emulator.runtime;
  const std::size_t n_lanes = static_cast<std::size_t>(n_cases) * 32;
  float* const result = upload(runtime, "d", d, n_lanes * 4);
  launch_multiply(f16, n_cases, upload(runtime, "a", a, n_lanes * 4), upload(runtime, "b", b, n_lanes * 2), result,
                  nullptr);
  download(runtime, result, n_lanes * 4, d);
}

void reductions(const float* in, float* out) noexcept {
  const Emulator emulator;
  Runtime& runtime = *emulator.runtime;
  constexpr std::size_t kIn = 32 * 3;
  float* const result = upload(runtime, "out", out, 4 * kIn);
  launch_reductions(upload(runtime, "in", in, kIn), result, nullptr);
  download(runtime, result, 4 * kIn, out);
}

void conversions(const float* in, std::int64_t n, std::uint16_t* bf16, std::uint16_t* f16, float* exp2,
                 std::uint32_t* packed_bf16, std::uint32_t* packed_f16) noexcept {
  const Emulator emulator;
  Runtime& runtime = *emulator.runtime;
  const auto count = static_cast<std::size_t>(n);
  auto* const bf16_out = upload(runtime, "bf16", bf16, count);
  auto* const f16_out = upload(runtime, "f16", f16, count);
  auto* const exp2_out = upload(runtime, "exp2", exp2, count);
  auto* const packed_bf16_out = upload(runtime, "packed_bf16", packed_bf16, count);
  auto* const packed_f16_out = upload(runtime, "packed_f16", packed_f16, count);
  launch_conversions(upload(runtime, "in", in, count), n, bf16_out, f16_out, exp2_out, packed_bf16_out, packed_f16_out,
                     nullptr);
  download(runtime, bf16_out, count, bf16);
  download(runtime, f16_out, count, f16);
  download(runtime, exp2_out, count, exp2);
  download(runtime, packed_bf16_out, count, packed_bf16);
  download(runtime, packed_f16_out, count, packed_f16);
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const EmulatedPrimitives kvlab_emulated_primitives = {multiply, reductions, conversions};

}  // namespace kvlab::cuda::conformance
