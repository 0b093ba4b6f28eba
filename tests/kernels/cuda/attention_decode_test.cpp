// Decode attention on the emulated device: against float64 on awkward sizes, with its bytes counted and compared with
// the plan's.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/device.h"
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
  for (const std::int64_t head_dim : {32, 64, 128, 256}) {
    for (const std::int64_t group : {1, 2, 4}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        check({.kv_lens = {70, 9}, .n_heads = group, .n_kv_heads = 1, .head_dim = head_dim, .dtype = dtype}, 2);
      }
    }
  }
}

TEST(CudaAttentionDecode, AnyMultipleOfEightRunsInTheNextInstance) {
  for (const std::int64_t head_dim : {8, 24, 40, 72, 80, 96, 104, 136, 192, 248}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      check({.kv_lens = {37}, .n_heads = 2, .n_kv_heads = 1, .head_dim = head_dim, .dtype = dtype, .n_splits = 2});
    }
  }
}

TEST(CudaAttentionDecode, HeadsOfAnyGroupReadTheirOwnKvHead) {
  for (const auto& [n_heads, n_kv_heads] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{28, 4}, {12, 12}, {71, 1}, {6, 2}, {33, 11}}) {
    const DecodeCase c{.kv_lens = {19}, .n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = 32, .n_splits = 2};
    check(c);
    const emulation::Device device({.counts = false});
    DecodeStep step(c);
    for (std::size_t i = 0; i < step.values()[0].size(); ++i) {  // V of KV head h: the constant h
      step.values()[0][i] = static_cast<float>(static_cast<std::int64_t>(i) / c.head_dim % n_kv_heads);
    }
    const auto out = step.run();
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto kv_head = static_cast<float>(static_cast<std::int64_t>(i) / c.head_dim / (n_heads / n_kv_heads));
      EXPECT_NEAR(out[i], kv_head, 1e-5F) << n_heads << "/" << n_kv_heads << " heads, element " << i;
    }
  }
}

TEST(CudaAttentionDecode, AWindowHidesOlderKeys) {
  for (const std::int64_t window : {1, 7, 16, 40, 1000}) {
    check({.kv_lens = {5, 41, 300}, .head_dim = 32, .window = window}, 4);
  }
}

TEST(CudaAttentionDecode, SequencesWithoutKeysGiveZerosAndLeaveTheirNeighboursAlone) {
  for (const std::int64_t n_splits : {1, 4}) check({.kv_lens = {0, 20, 0, 300}, .n_splits = n_splits}, 5);
}

TEST(CudaAttentionDecode, MoreSplitsThanPagesAndOrdersOfThreads) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    check({.kv_lens = {3, 90}, .n_heads = 2, .n_kv_heads = 1, .dtype = DType::f32, .page_size = 64, .n_splits = 40},
          seed);
  }
}

TEST(CudaAttentionDecode, ScoresFarBelowZeroAreNotMasked) {
  const emulation::Device device({.counts = false});
  DecodeStep step({.kv_lens = {20}, .n_heads = 1, .n_kv_heads = 1, .head_dim = 8, .dtype = DType::f32});
  step.q()[0].assign(8, -700.0F);  // scores: -700 * 85.5 * 8 / 8 = -59850, all alike
  step.keys()[0].assign(20 * 8, 85.5F);
  step.values()[0].assign(20 * 8, 0.25F);
  for (const float value : step.run()) EXPECT_NEAR(value, 0.25F, 1e-6F);
}

TEST(CudaAttentionDecode, ABatchGivesTheBitsOfItsSequencesAlone) {
  const emulation::Device device({.counts = false});
  DecodeStep both({.kv_lens = {45, 200}, .n_splits = 3});
  const auto together = both.run();
  DecodeStep alone({.kv_lens = {200}, .n_splits = 3});
  alone.q()[0] = both.q()[1];
  alone.keys()[0] = both.keys()[1];
  alone.values()[0] = both.values()[1];
  const auto apart = alone.run();
  for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_EQ(together[apart.size() + i], apart[i]);
}

/// K and V must be read as the plan says, in whole sectors, and shared memory used without conflicts.
void check_counts(const DecodeCase& c) {
  SCOPED_TRACE(describe(c));
  emulation::Device device;
  const DecodeStep step(c);
  step.run();
  const std::int64_t bytes = decode_k_bytes(step.shape(), step.plan(), c.kv_lens);
  for (const char* buffer : {"k", "v"}) {
    const auto reads = device.log().reads_of(buffer);
    EXPECT_EQ(reads.lane_bytes, bytes) << buffer;
    EXPECT_EQ(reads.sectors * 32, bytes) << buffer;
    EXPECT_EQ(reads.least_sectors * 32, bytes) << buffer;
    EXPECT_EQ(reads.touched_bytes * step.plan().n_passes, bytes) << buffer << ": each pass touches all of it";
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
    check_counts({.kv_lens = {50, 9}, .n_heads = 14, .n_kv_heads = 2, .dtype = dtype, .window = 20});  // 2 passes
  }
}

TEST(CudaAttentionDecode, SplitsWithoutKeysTouchNothing) {
  const DecodeCase c{.kv_lens = {20}, .n_heads = 1, .n_kv_heads = 1, .dtype = DType::f32, .n_splits = 1};
  DecodeCase many = c;
  many.n_splits = 50;
  std::int64_t q_bytes[2] = {};
  for (int i = 0; i < 2; ++i) {
    emulation::Device device;
    DecodeStep(i == 0 ? c : many).run();
    q_bytes[i] = device.log().reads_of("q").lane_bytes;
    EXPECT_EQ(device.log().writes_of("workspace").lane_bytes, 0) << "one live split writes the answer itself";
  }
  EXPECT_EQ(q_bytes[0], q_bytes[1]);
}

TEST(CudaDecodePlan, SplitsCoverTheVisibleKeysOnce) {
  for (const std::int32_t n_splits : {1, 2, 7, 64}) {
    for (const std::int32_t kv_len : {0, 1, 31, 32, 33, 1000, 100'000}) {
      for (const std::int32_t window : {0, 50}) {
        const KeyRange keys = visible_keys(kv_len, window);
        std::int32_t next = keys.begin;
        for (std::int32_t split = 0; split < n_splits; ++split) {
          const KeyRange part = split_keys(keys, split, n_splits, 32);
          const bool is_live = split < live_splits(keys.end - keys.begin, n_splits, 32);
          EXPECT_EQ(part.begin < part.end, is_live);
          if (is_live) {
            EXPECT_EQ(part.begin, next);
            next = part.end;
          }
        }
        EXPECT_EQ(next, keys.end) << kv_len << " keys, " << n_splits << " splits, window " << window;
      }
    }
  }
}

TEST(CudaDecodePlan, FillsTheDeviceAndNamesWhatItCannotRun) {
  DecodeShape shape{1, 32, 8, 128, 0, DType::bf16};
  EXPECT_EQ(plan_decode(shape, 396).n_splits, 49);
  EXPECT_EQ(plan_decode(shape, 396).n_passes, 1);
  shape.n_seqs = 64;
  EXPECT_EQ(plan_decode(shape, 396).n_splits, 1);
  EXPECT_EQ(decode_workspace_floats(shape, plan_decode(shape, 396)), 0);
  for (const std::int64_t head_dim : {0, 4, 12, 264}) {
    shape.head_dim = head_dim;
    EXPECT_THROW(plan_decode(shape, 396), InputError);
  }
  shape.head_dim = 64;
  shape.n_kv_heads = 5;
  EXPECT_THROW(plan_decode(shape, 396), InputError);
  const std::int32_t entry = 0;
  KvView kv;
  kv.page_table = &entry;
  kv.page_size = 16;
  kv.pages_per_seq = 1;
  EXPECT_NO_THROW(check_decode_lengths(kv, std::vector<std::int32_t>{16}));
  EXPECT_THROW(check_decode_lengths(kv, std::vector<std::int32_t>{1, 17}), InputError);
}

TEST(CudaAttentionDecode, RefusesWhatIsNotAligned) {
  const emulation::Device device;
  const test::DeviceArray<float> memory("memory", std::vector<float>(64, 0.0F));
  const test::DeviceArray<std::int32_t> kv_lens("kv_lens", std::vector<std::int32_t>{1});
  const test::DeviceArray<std::int64_t> regions("regions", std::vector<std::int64_t>{0});
  const DecodeShape shape{1, 1, 1, 8, 0, DType::f32};
  DecodeCall call;
  call.shape = shape;
  call.plan = plan_decode(shape, 1);
  call.q = memory.data();
  call.q_stride = 8;
  call.out = memory.data() + 32;
  call.out_stride = 8;
  call.kv_lens = kv_lens.data();
  call.kv.k = call.kv.v = memory.data() + 16;
  call.kv.slot_stride = 8;
  call.kv.region_offset = regions.data();
  EXPECT_NO_THROW(launch_attention_decode(call, nullptr));
  call.kv.slot_stride = 9;
  EXPECT_THROW(launch_attention_decode(call, nullptr), InputError);
  call.kv.slot_stride = 8;
  call.q = memory.data() + 1;
  EXPECT_THROW(launch_attention_decode(call, nullptr), InputError);
}

}  // namespace
}  // namespace kvlab::cuda
