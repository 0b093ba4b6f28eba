// Decode attention on the emulated device: against float64 on awkward sizes, with its bytes counted and compared with
// the plan's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/cuda_emulation/runtime.h"
#include "tests/kernels/cuda/decode_step.h"

namespace kvlab::cuda {
namespace {

using emulation::AccessKind;
using test::DecodeCase;
using test::DecodeStep;

void check(const DecodeCase& c, std::uint64_t seed = 0) {
  const emulation::Device device({.seed = seed, .counts = false});
  DecodeStep(c).check();
}

TEST(CudaAttentionDecode, MeetsTheReferenceAtEveryPageEdge) {
  for (const std::int64_t page_size : {0, 1, 8, 16, 64}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      check({.kv_lens = {15, 33, 16, 1, 31, 17, 32}, .dtype = dtype, .page_size = page_size}, 3);
    }
  }
}

TEST(CudaAttentionDecode, MeetsTheReferenceForEveryInstance) {
  for (const std::int64_t head_dim : {32, 64, 96, 128, 256}) {
    for (const std::int64_t group : {1, 2, 3, 4}) {  // 4 in bf16 is for tensor cores
      for (const DType dtype : {DType::f32, DType::bf16}) {
        check({.kv_lens = {70, 9}, .n_heads = group, .n_kv_heads = 1, .head_dim = head_dim, .dtype = dtype}, 2);
      }
    }
  }
}

TEST(CudaAttentionDecode, EveryInstanceUnderEightOrders) {
  for (const std::int64_t head_dim : {32, 64, 96, 128, 256}) {
    for (const std::int64_t group : {1, 2, 3, 4}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const DecodeKernel kernel = decode_kernel({1, group, 1, head_dim, 0, dtype});
        if (kernel.instance_dim != head_dim || (dtype == DType::f32 && group == 3)) continue;  // another's instance
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          check({.kv_lens = {kernel.tile_keys + 1},
                 .n_heads = group,
                 .n_kv_heads = 1,
                 .head_dim = head_dim,
                 .dtype = dtype,
                 .n_workers = 1},
                seed);
        }
      }
    }
  }
}

TEST(CudaAttentionDecode, TensorCoresTakeAnyGroupAndLength) {
  for (const std::int64_t group : {4, 5, 7, 8, 12, 16, 17, 71}) {
    check({.kv_lens = {1, 40}, .n_heads = group, .n_kv_heads = 1, .head_dim = 32}, 3);
  }
  for (const std::int32_t edge : {16, 32, 64, 128}) {
    check({.kv_lens = {edge - 1, edge, edge + 1}, .n_heads = 8, .head_dim = 128, .page_size = edge}, 4);
    check({.kv_lens = {edge - 1, edge, edge + 1}, .n_heads = 8, .head_dim = 64, .page_size = 0}, 4);
  }
  check({.kv_lens = {1009, 0, 2, 31}, .n_heads = 8, .head_dim = 128, .page_size = 1}, 5);
  check({.kv_lens = {4099}, .n_heads = 4, .n_kv_heads = 1, .page_size = 64, .n_workers = 5}, 5);
}

TEST(CudaAttentionDecode, WeightsOfPowersOfTwoAreExactOnTensorCores) {
  for (const std::int64_t head_dim : {24, 64, 96, 128, 256}) {
    const DecodeCase c{.kv_lens = {150}, .n_heads = 13, .n_kv_heads = 1, .head_dim = head_dim, .scale = 0.693147182F};
    SCOPED_TRACE(describe(c));
    const emulation::Device device({.counts = false});
    DecodeStep step(c);
    for (float& value : step.keys()[0]) value = std::floor(value * 4.0F);  // -4 to 3: a score in powers of two
    std::fill(step.q()[0].begin(), step.q()[0].end(), 0.0F);
    for (std::int64_t head = 0; head < c.n_heads; ++head) {
      step.q()[0][static_cast<std::size_t>(head * head_dim + head * 7 % head_dim)] = 1.0F;
    }
    step.set_exact_weights();
    step.expect_near_reference(step.run(), c.kv_lens);
  }
}

TEST(CudaAttentionDecode, AnyMultipleOfEightRunsInTheNextInstance) {
  for (const std::int64_t head_dim : {8, 24, 40, 72, 80, 96, 104, 136, 192, 248}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      check({.kv_lens = {37}, .n_heads = 2, .n_kv_heads = 1, .head_dim = head_dim, .dtype = dtype, .n_workers = 2});
    }
  }
}

TEST(CudaAttentionDecode, HeadsOfAnyGroupReadTheirOwnKvHead) {
  for (const auto& [n_heads, n_kv_heads] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{28, 4}, {12, 12}, {71, 1}, {6, 2}, {33, 11}}) {
    const DecodeCase c{.kv_lens = {19}, .n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = 32, .n_workers = 2};
    check(c);
    const emulation::Device device({.counts = false});
    DecodeStep step(c);
    for (std::size_t i = 0; i < step.values()[0].size(); ++i) {  // V of KV head h: the constant h
      step.values()[0][i] = static_cast<float>(static_cast<std::int64_t>(i) / c.head_dim % n_kv_heads);
    }
    const auto out = step.run();
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto kv_head = static_cast<float>(static_cast<std::int64_t>(i) / c.head_dim / (n_heads / n_kv_heads));
      // The same weights above and below the line: the sums, products and rescalings of attention_bounds remain.
      const double bound = kvlab::test::rounding_bound(2 * (19 + 4 * (19 / 16 + 2) + 12), kv_head);
      EXPECT_NEAR(out[i], kv_head, bound) << n_heads << "/" << n_kv_heads << " heads, element " << i;
    }
  }
}

TEST(CudaAttentionDecode, AWindowHidesOlderKeys) {
  for (const std::int64_t window : {1, 7, 16, 40, 1000}) {
    check({.kv_lens = {5, 41, 300}, .head_dim = 32, .window = window}, 4);
    check({.kv_lens = {5, 41, 300}, .n_heads = 8, .head_dim = 32, .window = window}, 4);
  }
}

TEST(CudaAttentionDecode, SequencesWithoutKeysGiveZerosAndLeaveTheirNeighboursAlone) {
  for (const std::int64_t n_heads : {4, 8}) {
    for (const std::int64_t n_workers : {1, 4}) {
      check({.kv_lens = {0, 20, 0, 300}, .n_heads = n_heads, .n_workers = n_workers}, 5);
    }
  }
  check({.kv_lens = {0, 0}});
}

TEST(CudaAttentionDecode, MoreWorkersThanPagesAndOrdersOfThreads) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    check({.kv_lens = {3, 90}, .n_heads = 2, .n_kv_heads = 1, .dtype = DType::f32, .page_size = 64, .n_workers = 40},
          seed);
  }
}

TEST(CudaAttentionDecode, ScoresFarBelowZeroAreNotMasked) {
  const emulation::Device device({.counts = false});
  DecodeStep step({.kv_lens = {20}, .n_heads = 1, .n_kv_heads = 1, .head_dim = 8, .dtype = DType::f32});
  step.q()[0].assign(8, -700.0F);  // scores: -700 * 85.5 * 8 / 8 = -59850, all alike
  step.keys()[0].assign(20 * 8, 85.5F);
  step.values()[0].assign(20 * 8, 0.25F);
  for (const float value : step.run()) EXPECT_EQ(value, 0.25F) << "every weight is 1";
}

/// K and V must be read as the plan says, in whole sectors, and shared memory used without conflicts.
void check_counts(const DecodeCase& c) {
  SCOPED_TRACE(describe(c));
  emulation::Device device;
  const DecodeStep step(c);
  step.run();
  const std::int64_t bytes = decode_k_bytes(step.shape(), test::spans_of(c.kv_lens));
  for (const char* buffer : {"k", "v"}) {
    const auto reads = device.log().reads_of(buffer);
    EXPECT_EQ(reads.lane_bytes, bytes) << buffer;
    EXPECT_EQ(reads.sectors * 32, bytes) << buffer;
    EXPECT_EQ(reads.least_sectors * 32, bytes) << buffer;
    EXPECT_EQ(reads.touched_bytes * decode_kernel(step.shape()).n_passes, bytes) << buffer << ": each pass has it all";
    EXPECT_EQ(device.log().of_buffer(buffer, {AccessKind::copy_source}).lane_bytes, bytes) << "all by cp.async";
  }
  const auto shared = device.log().of_shared();
  EXPECT_GT(shared.requests, 0);
  EXPECT_EQ(shared.wavefronts, shared.least_wavefronts);
}

TEST(CudaAttentionDecode, CountedBytesAreThePlans) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t page_size : {0, 1, 16}) {
      check_counts({.kv_lens = {33, 0, 130}, .head_dim = 128, .dtype = dtype, .page_size = page_size});
    }
    for (const std::int64_t head_dim : {32, 48, 64, 96, 256}) {
      check_counts({.kv_lens = {75}, .head_dim = head_dim, .dtype = dtype});
    }
  }
  check_counts({.kv_lens = {50, 9}, .n_heads = 14, .n_kv_heads = 2, .dtype = DType::f32, .window = 20});  // 2 passes
}

TEST(CudaAttentionDecode, CountedBytesAreThePlansOnTensorCores) {
  for (const std::int64_t page_size : {0, 1, 16}) {
    check_counts({.kv_lens = {33, 0, 130}, .n_heads = 8, .head_dim = 128, .page_size = page_size});
  }
  for (const std::int64_t head_dim : {16, 32, 48, 64, 80, 96, 112, 256}) {
    check_counts({.kv_lens = {75}, .n_heads = 8, .head_dim = head_dim});
  }
  check_counts({.kv_lens = {50, 9}, .n_heads = 34, .n_kv_heads = 2, .window = 20});  // 2 passes
}

TEST(CudaAttentionDecode, WorkersWithoutKeysTouchNothing) {
  const DecodeCase c{.kv_lens = {20}, .n_heads = 1, .n_kv_heads = 1, .dtype = DType::f32, .n_workers = 1};
  DecodeCase many = c;
  many.n_workers = 50;
  std::int64_t q_bytes[2] = {};
  for (int i = 0; i < 2; ++i) {
    emulation::Device device;
    DecodeStep(i == 0 ? c : many).run();
    q_bytes[i] = device.log().reads_of("q").lane_bytes;
    EXPECT_EQ(device.log().writes_of("workspace").lane_bytes, 0) << "who has all keys writes the answer";
  }
  EXPECT_EQ(q_bytes[0], q_bytes[1]);
}

TEST(CudaAttentionDecode, OneGraphServesEveryLength) {
  for (const std::int64_t n_heads : {2, 8}) {  // CUDA cores, tensor cores
    emulation::Device device({.counts = false});
    const auto runtime = emulation::make_emulated_runtime(device);
    CUstream_st* stream = runtime->make_stream();
    const DecodeStep step({.kv_lens = {200, 300, 2}, .n_heads = n_heads, .n_kv_heads = 2, .page_size = 16});
    test::DecodeMemory<Bf16> memory(step);
    runtime->begin_capture(stream);
    memory.launch(stream);
    const std::unique_ptr<Graph> graph = runtime->end_capture(stream);
    for (const std::vector<std::int32_t>& kv_lens : std::vector<std::vector<std::int32_t>>{{1, 1, 1},
                                                                                           {15, 127, 0},
                                                                                           {16, 128, 1},
                                                                                           {17, 129, 2},
                                                                                           {64, 255, 2},
                                                                                           {65, 256, 2},
                                                                                           {0, 257, 0},
                                                                                           {0, 0, 0},
                                                                                           {200, 300, 2}}) {
      memory.set_kv_lens(kv_lens);
      memory.launch(nullptr);
      const auto eager = memory.out();
      step.expect_near_reference(eager, kv_lens);
      graph->launch(stream);
      const auto replayed = memory.out();
      EXPECT_EQ(std::memcmp(eager.data(), replayed.data(), eager.size() * sizeof(float)), 0);
    }
  }
}

TEST(CudaAttentionDecode, RefusesWhatItCannotRun) {
  const emulation::Device device;
  const DecodeStep step({.kv_lens = {1}, .n_heads = 1, .n_kv_heads = 1, .head_dim = 8, .dtype = DType::f32});
  test::DecodeMemory<float> memory(step);
  const DecodeCall good = memory.call();
  EXPECT_NO_THROW(memory.launch(nullptr));
  const auto refused = [&](auto change) {
    DecodeCall call = good;
    change(call);
    EXPECT_THROW(launch_attention_decode(call, nullptr), InputError);
  };
  refused([](DecodeCall& call) { call.kv.slot_stride = 9; });
  refused([](DecodeCall& call) { call.q += 1; });
  refused([](DecodeCall& call) { call.out_stride += 1; });
  refused([](DecodeCall& call) { call.kv.dtype = DType::bf16; });
  refused([](DecodeCall& call) { call.plan = nullptr; });
  refused([](DecodeCall& call) { call.workspace = nullptr; });
}

}  // namespace
}  // namespace kvlab::cuda
