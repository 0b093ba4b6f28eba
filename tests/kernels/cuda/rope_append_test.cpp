// Rotation and append on the emulated device: Q, K and V against float64 in regions and pages, f32 and bf16, and what
// is read and written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::random_values;
using kvlab::test::rope_bound;

struct Heads {
  std::int64_t n_heads;
  std::int64_t n_kv_heads;
  std::int64_t head_dim;
  std::int64_t width() const { return (n_heads + 2 * n_kv_heads) * head_dim; }
};

constexpr std::int64_t kPageSize = 16;
constexpr std::int64_t kPagesPerSeq = 3;
constexpr std::int64_t kSeqs = 3;
constexpr std::int64_t kSlots = 40;  // of a region
// A ragged step: one sequence over the edge of a page, one at its first token, one that decodes.
const std::vector<std::int32_t> kPositions = {14, 15, 16, 0, 33};
const std::vector<std::int32_t> kRowSeqs = {0, 0, 0, 1, 2};
constexpr std::int64_t kRows = 5;

std::vector<double> frequencies(std::int64_t head_dim) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    result.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  return result;
}

std::vector<float> cos_sin_table(std::int64_t head_dim) {
  std::vector<float> table;
  for (std::int64_t pos = 0; pos < kSlots; ++pos) {
    const auto at = static_cast<double>(pos);
    for (const double f : frequencies(head_dim)) table.push_back(static_cast<float>(std::cos(at * f)));
    for (const double f : frequencies(head_dim)) table.push_back(static_cast<float>(std::sin(at * f)));
  }
  return table;
}

/// A cache of one layer on the device, every slot unwritten: pages in shuffled order, or regions with a gap before
/// them.
class Cache {
 public:
  Cache(const Heads& heads, DType dtype, bool paged) {
    view_.dtype = dtype;
    view_.slot_stride = heads.head_dim;
    view_.head_stride = (paged ? kPageSize : kSlots) * heads.head_dim;
    const std::int64_t unit = heads.n_kv_heads * view_.head_stride;  // of a page or region
    if (paged) {
      view_.page_size = kPageSize;
      view_.page_stride = unit;
      view_.page_table = table_.data();
      view_.pages_per_seq = kPagesPerSeq;
    } else {
      view_.region_offset = starts_.data();
      for (std::int64_t i = 0; i < kSeqs; ++i) starts_.data()[i] = (kSeqs - 1 - i) * unit;
    }
    bytes_ = static_cast<std::size_t>((paged ? kSeqs * kPagesPerSeq : kSeqs) * unit) * dtype_bytes(dtype);
    k_ = std::make_unique<test::DeviceArray<std::byte>>("k", bytes_);
    v_ = std::make_unique<test::DeviceArray<std::byte>>("v", bytes_);
    view_.k = k_->data();
    view_.v = v_->data();
  }

  const KvView& view() const { return view_; }

  float value(const void* side, std::int64_t row, std::int64_t head, std::int64_t i) const {
    const auto at = static_cast<std::size_t>(row);
    const std::int64_t offset = kv_offset(view_, kRowSeqs[at], head, kPositions[at]) + i;
    return view_.dtype == DType::f32 ? static_cast<const float*>(side)[offset]
                                     : bf16_to_float(static_cast<const Bf16*>(side)[offset]);
  }

  /// Elements that were written: the others are still NaN patterns.
  std::int64_t n_written(const void* side) const {
    const auto* bytes = static_cast<const unsigned char*>(side);
    const std::size_t size = dtype_bytes(view_.dtype);
    std::int64_t n = 0;
    for (std::size_t end = size; end <= bytes_; end += size)
      n += bytes[end - 1] == 0xFF && bytes[end - 2] == 0xFF ? 0 : 1;
    return n;
  }

 private:
  KvView view_;
  std::size_t bytes_ = 0;
  test::DeviceArray<std::int32_t> table_{"page_table", std::vector<std::int32_t>{7, 2, 5, 0, 8, 3, 6, 1, 4}};
  test::DeviceArray<std::int64_t> starts_{"region_start", std::vector<std::int64_t>(kSeqs)};
  std::unique_ptr<test::DeviceArray<std::byte>> k_;
  std::unique_ptr<test::DeviceArray<std::byte>> v_;
};

/// A step's inputs on the device.
struct Step {
  Step(const Heads& shape, const std::vector<float>& values, std::int64_t stride)
      : heads(shape),
        qkv("qkv", kvlab::test::with_stride(values, shape.width(), stride)),
        positions("positions", kPositions),
        seqs("seqs", kRowSeqs),
        cos_sin("cos_sin", cos_sin_table(shape.head_dim)) {
    args.qkv = qkv.data();
    args.qkv_stride = stride;
    args.n_rows = kRows;
    args.n_heads = shape.n_heads;
    args.n_kv_heads = shape.n_kv_heads;
    args.head_dim = shape.head_dim;
    args.positions = positions.data();
    args.seqs = seqs.data();
    args.cos_sin = cos_sin.data();
    args.q_out_stride = shape.n_heads * shape.head_dim;
  }

  Heads heads;
  test::DeviceArray<float> qkv;
  test::DeviceArray<std::int32_t> positions;
  test::DeviceArray<std::int32_t> seqs;
  test::DeviceArray<float> cos_sin;
  RopeAppendArgs args;
};

/// |stored - exact| <= the rotation's bound, and half a unit of bf16 (2^-8) where the value is rounded to it.
void expect_near(float actual, double expected, double bound, DType dtype) {
  const double storage = dtype == DType::bf16 ? 0x1p-8 * (std::fabs(expected) + bound) : 0.0;
  ASSERT_LE(std::fabs(actual - expected), bound + storage);
}

void expect_step(const Heads& heads, const std::vector<float>& values, const std::vector<float>& q_out,
                 const Cache& cache) {
  std::vector<double> rotated(values.begin(), values.end());  // V as well, unused
  const std::int64_t n_heads = heads.n_heads + 2 * heads.n_kv_heads;
  reference::rope(rotated.data(), kRows, n_heads, heads.head_dim, kPositions.data(),
                  frequencies(heads.head_dim).data());
  const KvView& view = cache.view();
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t head = 0; head < n_heads; ++head) {
      for (std::int64_t i = 0; i < heads.head_dim; ++i) {
        const std::int64_t at = (row * n_heads + head) * heads.head_dim + i;
        const std::int64_t partner = i < heads.head_dim / 2 ? at + heads.head_dim / 2 : at - heads.head_dim / 2;
        const float value = values[static_cast<std::size_t>(at)];
        const double expected = rotated[static_cast<std::size_t>(at)];
        const double bound = rope_bound(std::fabs(value) + std::fabs(values[static_cast<std::size_t>(partner)]));
        SCOPED_TRACE(testing::Message() << "row " << row << ", head " << head << ", component " << i);
        if (head < heads.n_heads) {
          const std::int64_t q_at = (row * heads.n_heads + head) * heads.head_dim + i;
          expect_near(q_out[static_cast<std::size_t>(q_at)], expected, bound, DType::f32);
        } else if (head < heads.n_heads + heads.n_kv_heads) {
          expect_near(cache.value(view.k, row, head - heads.n_heads, i), expected, bound, view.dtype);
        } else {
          ASSERT_EQ(cache.value(view.v, row, head - heads.n_heads - heads.n_kv_heads, i),
                    kvlab::test::rounded(value, view.dtype));
        }
      }
    }
  }
  const std::int64_t n_expected = kRows * heads.n_kv_heads * heads.head_dim;
  EXPECT_EQ(cache.n_written(view.k), n_expected);
  EXPECT_EQ(cache.n_written(view.v), n_expected);
}

void expect_traffic(const Heads& heads, const emulation::AccessLog& log, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(dtype));
  const auto reads = log.reads_of("qkv");
  EXPECT_EQ(reads.lane_bytes, kRows * heads.width() * 4);
  EXPECT_EQ(reads.touched_bytes, kRows * heads.width() * 4);
  EXPECT_EQ(log.writes_of("q_out").lane_bytes, kRows * heads.n_heads * heads.head_dim * 4);
  const bool whole_sectors = heads.head_dim / 2 * bytes % 32 == 0;  // half a head
  for (const char* side : {"k", "v"}) {
    const auto writes = log.writes_of(side);
    EXPECT_EQ(writes.lane_bytes, kRows * heads.n_kv_heads * heads.head_dim * bytes);
    EXPECT_EQ(writes.touched_bytes, writes.lane_bytes);
    if (whole_sectors) {
      EXPECT_EQ(writes.sectors, writes.least_sectors) << side;
    }
  }
  if (whole_sectors) {
    EXPECT_EQ(reads.sectors, reads.least_sectors);
    EXPECT_EQ(log.writes_of("q_out").sectors, log.writes_of("q_out").least_sectors);
  }
}

TEST(CudaRopeAppend, RegionsAndPagesHoldWhatTheReferenceSays) {
  const std::vector<Heads> shapes = {{1, 1, 2},  {125, 1, 2}, {126, 1, 2}, {127, 1, 2},  // around a block of threads
                                     {3, 1, 14}, {9, 3, 64},  {2, 2, 80},  {33, 11, 32}, {16, 2, 256}};
  for (const Heads& heads : shapes) {
    const auto values = random_values(kRows * heads.width(), 21);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool paged : {false, true}) {
        SCOPED_TRACE(testing::Message() << heads.n_heads << " heads of " << heads.head_dim << ", " << dtype_name(dtype)
                                        << (paged ? ", paged" : ", regions"));
        emulation::Device device({.seed = paged ? 0U : 6U});
        Step step(heads, values, heads.width());
        const Cache cache(heads, dtype, paged);
        const test::DeviceArray<float> q_out("q_out", static_cast<std::size_t>(kRows * step.args.q_out_stride));
        step.args.kv = cache.view();
        launch_rope_append(step.args, q_out.data(), nullptr);
        expect_step(heads, values, q_out.values(), cache);
        expect_traffic(heads, device.log(), dtype);
      }
    }
  }
}

TEST(CudaRopeAppend, WorksInPlaceStridedAndRoundsQueriesToBf16) {
  const Heads heads{4, 2, 16};
  const auto values = random_values(kRows * heads.width(), 22);
  for (const std::int64_t gap : {4, 5}) {  // 16-byte accesses, and words
    const emulation::Device device({.seed = 8});
    const std::int64_t stride = heads.width() + gap;
    Step step(heads, values, stride);
    const Cache cache(heads, DType::f32, true);
    step.args.kv = cache.view();
    const test::DeviceArray<Bf16> rounded("rounded", static_cast<std::size_t>(kRows * step.args.q_out_stride));
    launch_rope_append(step.args, rounded.data(), nullptr);
    step.args.q_out_stride = stride;
    launch_rope_append(step.args, step.qkv.data(), nullptr);
    const auto in_place = kvlab::test::without_stride(step.qkv.values(), heads.width(), stride);
    std::vector<float> q_out;  // [kRows, n_heads * head_dim]
    const std::int64_t q_width = heads.n_heads * heads.head_dim;
    for (std::int64_t i = 0; i < kRows * q_width; ++i) {
      q_out.push_back(in_place[static_cast<std::size_t>(i / q_width * heads.width() + i % q_width)]);
    }
    expect_step(heads, values, q_out, cache);
    for (std::size_t i = 0; i < q_out.size(); ++i) {
      EXPECT_EQ(rounded.values()[i].bits, bf16_from_float(q_out[i]).bits);
    }
  }
}

TEST(CudaRopeAppend, WithoutATableNothingTurns) {
  const Heads heads{3, 3, 8};
  const auto values = random_values(kRows * heads.width(), 23);
  const emulation::Device device;
  Step step(heads, values, heads.width());
  const Cache cache(heads, DType::bf16, false);
  step.args.kv = cache.view();
  step.args.cos_sin = nullptr;
  const test::DeviceArray<float> q_out("q_out", static_cast<std::size_t>(kRows * step.args.q_out_stride));
  launch_rope_append(step.args, q_out.data(), nullptr);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < 24; ++i) {
      const auto at = static_cast<std::size_t>(row * heads.width() + i);
      EXPECT_EQ(q_out.values()[static_cast<std::size_t>(row * 24 + i)], values[at]);
      EXPECT_EQ(cache.value(cache.view().k, row, i / 8, i % 8), kvlab::test::rounded(values[at + 24], DType::bf16));
    }
  }
}

TEST(CudaRopeAppend, APageTooFewIsAnError) {
  const Heads heads{1, 1, 8};
  const emulation::Device device;
  Step step(heads, random_values(kRows * heads.width(), 24), heads.width());
  const Cache cache(heads, DType::f32, true);
  const test::DeviceArray<std::int32_t> short_table("short_table", std::vector<std::int32_t>{7, 2, 5, 0, 8, 3, 6, 1});
  const test::DeviceArray<float> q_out("q_out", static_cast<std::size_t>(kRows * 8));
  step.args.kv = cache.view();
  step.args.kv.page_table = short_table.data();  // position 33 of the last sequence needs the ninth entry
  EXPECT_THROW(launch_rope_append(step.args, q_out.data(), nullptr), emulation::EmulationError);
}

TEST(CudaRopeAppend, RefusesAnOddHeadDim) {
  const emulation::Device device;
  RopeAppendArgs args;
  args.n_rows = 1;
  args.n_heads = 1;
  args.n_kv_heads = 1;
  args.head_dim = 7;
  EXPECT_THROW(launch_rope_append(args, static_cast<float*>(nullptr), nullptr), InputError);
}

}  // namespace
}  // namespace kvlab::cuda
