// The kernels of conformance.h, compiled for the emulator and, where nvcc is, for the device.
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/atomics.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp_ops.cuh"
#include "tests/kernels/cuda/conformance/conformance.h"

namespace kvlab::cuda::conformance {

namespace {

template <typename T>
KVLAB_KERNEL void multiply_kernel(Global<const std::uint32_t> a, Global<const std::uint32_t> b, Global<float> d) {
  const int at = block_x() * kWarpSize + lane_id();
  std::uint32_t a_registers[4];
  std::uint32_t b_registers[2];
  float d_registers[4];
  for (int i = 0; i < 4; ++i) a_registers[i] = load_global(a + (4 * at + i));
  for (int i = 0; i < 2; ++i) b_registers[i] = load_global(b + (2 * at + i));
  for (int i = 0; i < 4; ++i) d_registers[i] = load_global(d + (4 * at + i));
  multiply_accumulate<T>(d_registers, a_registers, b_registers);
  for (int i = 0; i < 4; ++i) store_global(d + (4 * at + i), d_registers[i]);
}

struct TileStorage {
  SharedArray<std::uint16_t, 32 * 8> tile;  // [32, 8]
};

template <int n>
KVLAB_DEVICE int store_registers(const std::uint32_t (&registers)[n], Global<std::uint32_t> out, int first) {
  for (int i = 0; i < n; ++i) store_global(out + ((first + i) * kWarpSize + lane_id()), registers[i]);
  return first + n;
}

KVLAB_KERNEL void load_matrix_kernel(Global<const std::uint16_t> tile, Global<std::uint32_t> out) {
  auto& shared = shared_storage<TileStorage>();
  using Row = Vector<std::uint16_t, 8>;
  const int lane = lane_id();
  store_shared(shared.tile.at(8 * lane).as<Row>(), load_global((tile + 8 * lane).as<Row>()));
  warp_barrier();
  const Shared<std::uint16_t> row = shared.tile.at((5 * lane + 3) % 32 * 8);
  std::uint32_t x1[1];
  std::uint32_t x2[2];
  std::uint32_t x4[4];
  int at = 0;
  load_matrix_x1(x1, row);
  at = store_registers(x1, out, at);
  load_matrix_x2(x2, row);
  at = store_registers(x2, out, at);
  load_matrix_x4(x4, row);
  at = store_registers(x4, out, at);
  load_matrix_transposed_x1(x1, row);
  at = store_registers(x1, out, at);
  load_matrix_transposed_x2(x2, row);
  at = store_registers(x2, out, at);
  load_matrix_transposed_x4(x4, row);
  store_registers(x4, out, at);
}

KVLAB_KERNEL void warp_operations_kernel(Global<std::uint32_t> out) {
  const int lane = lane_id();
  const int value = 100 + lane;
  const auto wide = static_cast<unsigned long long>(lane) << 40;
  std::uint32_t rows[kWarpRows] = {};
  rows[0] = static_cast<std::uint32_t>(shuffle(value, 3 * lane + 1, 8));
  rows[1] = static_cast<std::uint32_t>(shuffle_xor(value, 5));
  rows[2] = static_cast<std::uint32_t>(shuffle_up(value, 3, 16));
  rows[3] = static_cast<std::uint32_t>(shuffle_down(value, 3, 16));
  rows[4] = static_cast<std::uint32_t>(shuffle_xor(wide, 1) >> 32);
  rows[5] = ballot(lane % 3 == 0);
  if (lane < 20) rows[6] = ballot(lane % 2 == 0, 0xFFFFFU);
  store_registers(rows, out, 0);
}

KVLAB_KERNEL void reductions_kernel(Global<const float> in, Global<float> out) {
  const int lane = lane_id();
  float values[4][3];
  for (int i = 0; i < 3; ++i) {
    const float value = load_global(in + (3 * lane + i));
    for (int kind = 0; kind < 4; ++kind) values[kind][i] = value;
  }
  group_sum<32>(values[0]);
  group_max<32>(values[1]);
  group_sum<8>(values[2]);
  group_max<8>(values[3]);
  for (int kind = 0; kind < 4; ++kind) {
    for (int i = 0; i < 3; ++i) store_global(out + ((kind * 32 + lane) * 3 + i), values[kind][i]);
  }
}

struct CopyStorage {
  SharedArray<std::uint8_t, 32 * 16> rows;  // [32, 16]
};

KVLAB_KERNEL void async_copy_kernel(Global<const std::uint8_t> in, Global<std::uint8_t> out) {
  auto& shared = shared_storage<CopyStorage>();
  using Row = Vector<std::uint8_t, 16>;
  const int row = lane_id();
  // Even rows in the first group, odd ones in the second.
  if (row % 2 == 0) copy_async16(shared.rows.at(16 * row), in + 16 * row, row % 17);
  commit_copies();
  if (row % 2 == 1) copy_async16(shared.rows.at(16 * row), in + 16 * row, row % 17);
  commit_copies();
  wait_for_copies<1>();
  if (row % 2 == 0) {
    store_global((out + 16 * row).as<Row>(), load_shared(shared.rows.at(16 * row).as<Row>()));
  }
  wait_for_copies<0>();
  if (row % 2 == 1) {
    store_global((out + 16 * row).as<Row>(), load_shared(shared.rows.at(16 * row).as<Row>()));
  }
}

KVLAB_KERNEL void conversions_kernel(Global<const float> in, std::int64_t n, Global<std::uint16_t> bf16,
                                     Global<std::uint16_t> f16, Global<float> exp2, Global<std::uint32_t> packed_bf16,
                                     Global<std::uint32_t> packed_f16) {
  const std::int64_t i = std::int64_t{block_x()} * block_size_x() + thread_x();
  if (i >= n) return;
  const float value = load_global(in + i);
  store_global(bf16 + i, to_bf16(value).bits);
  store_global(f16 + i, to_f16(value).bits);
  store_global(exp2 + i, exp2_approx(value));
  store_global(packed_bf16 + i, pack_bf16(value, -value));
  store_global(packed_f16 + i, pack_f16(value, -value));
}

KVLAB_KERNEL void widening_kernel(Global<float> out) {
  const int i = block_x() * block_size_x() + thread_x();
  const auto bits = static_cast<std::uint16_t>(i);
  store_global(out + i, to_float(F16{bits}));
  store_global(out + (65536 + i), to_float(Bf16{bits}));
}

KVLAB_KERNEL void atomics_kernel(Global<unsigned> counters, Global<unsigned> tickets, Global<float> sum) {
  const auto i = static_cast<unsigned>(block_x() * block_size_x() + thread_x());
  atomic_add(counters, i);
  atomic_max(counters + 1, i * 7U % 256U);
  store_global(tickets + i, take_ticket(counters + 2));
  atomic_add(sum, 0.5F);
}

}  // namespace

void launch_multiply(bool f16, int n_cases, const std::uint32_t* a, const std::uint32_t* b, float* d,
                     CUstream_st* stream) {
  launch("multiply", f16 ? multiply_kernel<F16> : multiply_kernel<Bf16>, {n_cases, kWarpSize}, stream, a, b, d);
}

void launch_load_matrix(const std::uint16_t* tile, std::uint32_t* out, CUstream_st* stream) {
  launch("load_matrix", load_matrix_kernel, {1, kWarpSize, 1, 1, sizeof(TileStorage)}, stream, tile, out);
}

void launch_warp_operations(std::uint32_t* out, CUstream_st* stream) {
  launch("warp_operations", warp_operations_kernel, {1, kWarpSize}, stream, out);
}

void launch_reductions(const float* in, float* out, CUstream_st* stream) {
  launch("reductions", reductions_kernel, {1, kWarpSize}, stream, in, out);
}

void launch_async_copy(const std::uint8_t* in, std::uint8_t* out, CUstream_st* stream) {
  launch("async_copy", async_copy_kernel, {1, kWarpSize, 1, 1, sizeof(CopyStorage)}, stream, in, out);
}

void launch_conversions(const float* in, std::int64_t n, std::uint16_t* bf16, std::uint16_t* f16, float* exp2,
                        std::uint32_t* packed_bf16, std::uint32_t* packed_f16, CUstream_st* stream) {
  launch("conversions", conversions_kernel, shape_for(n, 128, n), stream, in, n, bf16, f16, exp2, packed_bf16,
         packed_f16);
}

void launch_widening(float* out, CUstream_st* stream) { launch("widening", widening_kernel, {512, 128}, stream, out); }

void launch_atomics(unsigned* counters, unsigned* tickets, float* sum, CUstream_st* stream) {
  launch("atomics", atomics_kernel, {4, 64}, stream, counters, tickets, sum);
}

}  // namespace kvlab::cuda::conformance
