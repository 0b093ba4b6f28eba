// Values drawn on the emulated device: the host's bits, in arrays and in caches, in several orders of threads, with
// counted writes.
#include "kernels/cuda/fill_random.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
std::uint32_t bits_of(Bf16 value) { return value.bits; }
std::uint32_t drawn_bits(const RandomValues& values, std::uint64_t i, float) {
  return bits_of(random_value(values, i));
}
std::uint32_t drawn_bits(const RandomValues& values, std::uint64_t i, Bf16) {
  return bf16_from_float(random_value(values, i)).bits;
}

template <typename T>
void check_array(std::int64_t n, std::uint64_t first, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << n << " values of " << sizeof(T) << " bytes from " << first << ", seed " << seed);
  const std::uint64_t values_seed = scattered(static_cast<std::uint64_t>(n));
  const RandomValues values{values_seed, 1.0, 0.1};  // a mean that a fused product would round otherwise
  emulation::Device device({.seed = seed});
  const test::DeviceArray<T> out("out", static_cast<std::size_t>(n));
  launch_fill_random(values, first, n, out.data(), nullptr);
  const std::vector<T> filled = out.values();
  for (std::size_t i = 0; i < filled.size(); ++i) {
    ASSERT_EQ(bits_of(filled[i]), drawn_bits(values, first + i, T{})) << "element " << i;
  }
  const auto writes = device.log().writes_of("out");
  EXPECT_EQ(writes.lane_bytes, n * static_cast<std::int64_t>(sizeof(T)));
  EXPECT_EQ(writes.touched_bytes, writes.lane_bytes);
  EXPECT_EQ(writes.sectors, writes.least_sectors);
}

TEST(CudaFillRandom, HasTheBitsOfTheHostInEveryOrderOfThreads) {
  for (const std::int64_t n : {1, 7, 8, 1021, 1024, 2048}) {
    check_array<float>(n, 0, 1);
    check_array<Bf16>(n, std::uint64_t{1} << 40, 1);
  }
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (const std::int64_t n : {515, 520}) {  // scalar and wide
      check_array<float>(n, 3, seed);
      check_array<Bf16>(n, 3, seed);
    }
  }
}

TEST(CudaFillRandom, StridesOverWhatOneGridDoesNotCover) {
  const RandomValues values{9, 0.0, 1.0};
  constexpr std::int64_t kN = 4096 * 256 + 5;  // scalar, five values more than threads
  const emulation::Device device({.counts = false});
  const test::DeviceArray<float> out("out", kN);
  launch_fill_random(values, 0, kN, out.data(), nullptr);
  const std::vector<float> filled = out.values();
  for (const std::size_t i : {std::size_t{0}, std::size_t{kN / 2}, std::size_t{kN - 6}, std::size_t{kN - 1}}) {
    EXPECT_EQ(filled[i], random_value(values, i)) << i;
  }
}

constexpr std::int64_t kSeqs = 2;
constexpr std::int64_t kKvHeads = 3;
constexpr std::int64_t kPageSize = 4;
constexpr std::int64_t kPagesPerSeq = 3;
constexpr std::int64_t kSlots = kPageSize * kPagesPerSeq;  // of a region

/// A cache on the device, filled and compared element by element; what is past the tokens stays unwritten.
template <typename T>
void check_cache(bool paged, std::int64_t head_dim, std::int64_t n_tokens, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << (paged ? "pages" : "regions") << ", head_dim " << head_dim << ", " << n_tokens
                                  << " tokens of " << sizeof(T) << " bytes, seed " << seed);
  emulation::Device device({.seed = seed});
  const auto size = static_cast<std::size_t>(kSeqs * kKvHeads * kSlots * head_dim);
  const test::DeviceArray<T> k("k", size);
  const test::DeviceArray<T> v("v", size);
  const test::DeviceArray<std::int32_t> pages("pages", std::vector<std::int32_t>{5, 0, 3, 1, 4, 2});
  const test::DeviceArray<std::int64_t> starts("starts", std::vector<std::int64_t>{kKvHeads * kSlots * head_dim, 0});
  KvView view;
  view.k = k.data();
  view.v = v.data();
  view.dtype = sizeof(T) == 4 ? DType::f32 : DType::bf16;
  view.slot_stride = head_dim;
  view.head_stride = (paged ? kPageSize : kSlots) * head_dim;
  view.page_size = kPageSize;
  view.page_stride = kKvHeads * kPageSize * head_dim;
  view.pages_per_seq = kPagesPerSeq;
  view.page_table = paged ? pages.data() : nullptr;
  view.region_offset = starts.data();
  RandomKv kv = random_kv(seed, 1);
  kv.first_seq = 2;
  kv.heads_per_row = 2;
  launch_fill_kv(kv, kSeqs, n_tokens, kKvHeads, head_dim, view, nullptr);

  std::vector<std::uint32_t> expected_k(size, sizeof(T) == 4 ? 0xFFFFFFFFU : 0xFFFFU);  // as allocated
  std::vector<std::uint32_t> expected_v = expected_k;
  for (std::int64_t seq = 0; seq < kSeqs; ++seq) {
    for (std::int64_t head = 0; head < kKvHeads; ++head) {
      for (std::int64_t pos = 0; pos < n_tokens; ++pos) {
        const auto at = static_cast<std::size_t>(kv_offset(view, seq, head, pos));
        const std::uint64_t row = random_kv_row(kv, seq, head, pos, head_dim);
        for (std::size_t i = 0; i < static_cast<std::size_t>(head_dim); ++i) {
          expected_k[at + i] = drawn_bits(kv.k, row + i, T{});
          expected_v[at + i] = drawn_bits(kv.v, row + i, T{});
        }
      }
    }
  }
  const std::vector<T> filled_k = k.values();
  const std::vector<T> filled_v = v.values();
  for (std::size_t i = 0; i < size; ++i) {
    ASSERT_EQ(bits_of(filled_k[i]), expected_k[i]) << "k " << i;
    ASSERT_EQ(bits_of(filled_v[i]), expected_v[i]) << "v " << i;
  }
  const auto writes = device.log().writes_of("k");
  EXPECT_EQ(writes.lane_bytes, kSeqs * kKvHeads * n_tokens * head_dim * static_cast<std::int64_t>(sizeof(T)));
  EXPECT_EQ(writes.touched_bytes, writes.lane_bytes);
}

TEST(CudaFillKv, HasTheHostsBitsInRegionsAndPages) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (const std::int64_t head_dim : {5, 16}) {  // scalar and wide
      check_cache<float>(seed % 2 == 0, head_dim, 9, seed);
      check_cache<Bf16>(seed % 2 == 0, head_dim, 9, seed);
    }
  }
  for (const bool paged : {false, true}) {
    for (const std::int64_t n_tokens : {1, 3, 4, 5, 12}) check_cache<float>(paged, 8, n_tokens, 1);
  }
}

TEST(CudaFillKv, WhatDoesNotFitIsRefused) {
  const emulation::Device device;
  const std::int32_t table[] = {0};
  KvView view;
  view.page_table = table;
  view.page_size = 16;
  view.pages_per_seq = 1;
  EXPECT_THROW(launch_fill_kv({}, 1, 17, 1, 8, view, nullptr), InputError);
  view.page_table = nullptr;
  EXPECT_THROW(launch_fill_kv({}, 65536, 1, 1, 8, view, nullptr), InputError);
  EXPECT_THROW(launch_fill_random({}, 0, -1, static_cast<float*>(nullptr), nullptr), InputError);
  launch_fill_kv({}, 0, 17, 1, 8, view, nullptr);  // nothing to do is no launch
  launch_fill_random({}, 0, 0, static_cast<float*>(nullptr), nullptr);
  EXPECT_EQ(emulation::Device::current().n_launches(), 0);
}

}  // namespace
}  // namespace kvlab::cuda
