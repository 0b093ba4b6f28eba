// Append on the emulated device, and the collection of a sequence's rows from regions and pages.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::random_values;

constexpr std::int64_t kPageSize = 16;
constexpr std::int64_t kPagesPerSeq = 3;
constexpr std::int64_t kKvHeads = 3;

/// Ragged: over the edge of a page, nothing new, a first token, a decode step at the end of a page.
const std::vector<SequenceSpan> kSpans = {{0, 4, 17}, {4, 0, 9}, {4, 1, 1}, {5, 1, 32}};
constexpr std::int64_t kRows = 6;

struct AppendCase {
  std::int64_t head_dim;
  DType dtype;
  bool paged;
};

class CudaAppend : public testing::TestWithParam<AppendCase> {
 protected:
  CudaAppend() {
    view_.dtype = GetParam().dtype;
    view_.slot_stride = GetParam().head_dim;
    view_.head_stride = (GetParam().paged ? kPageSize : kPagesPerSeq * kPageSize) * view_.slot_stride;
    const std::int64_t unit = kKvHeads * view_.head_stride;
    if (GetParam().paged) {
      view_.page_size = kPageSize;
      view_.page_stride = unit;
      view_.page_table = table_.data();
      view_.pages_per_seq = kPagesPerSeq;
    } else {
      for (std::size_t i = 0; i < kSpans.size(); ++i) starts_.data()[i] = static_cast<std::int64_t>(3 - i) * unit;
      view_.region_offset = starts_.data();
    }
    view_.k = k_.data();
    view_.v = v_.data();
  }

  float stored(const void* side, std::int64_t at) const {
    return view_.dtype == DType::f32 ? static_cast<const float*>(side)[at]
                                     : bf16_to_float(static_cast<const Bf16*>(side)[at]);
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(4 * kPagesPerSeq * kPageSize * kKvHeads * GetParam().head_dim) *
           dtype_bytes(GetParam().dtype);
  }

  emulation::Device device_{{.seed = 5}};
  KvView view_;
  test::DeviceArray<std::int32_t> table_{"page_table", std::vector<std::int32_t>{7, 2, 5, 0, 8, 3, 6, 1, 4, 11, 9, 10}};
  test::DeviceArray<std::int64_t> starts_{"region_start", std::vector<std::int64_t>(kSpans.size())};
  test::DeviceArray<std::byte> k_{"k", bytes()};
  test::DeviceArray<std::byte> v_{"v", bytes()};
};

TEST_P(CudaAppend, PutsEveryRowInItsSlotAndNothingElseAndCollectsItAgain) {
  const std::int64_t head_dim = GetParam().head_dim;
  const std::int64_t width = kKvHeads * head_dim;
  const auto k_rows = random_values(kRows * width, 1);
  const auto v_rows = random_values(kRows * width, 2);
  const test::DeviceArray<float> k("k_rows", k_rows);
  const test::DeviceArray<float> v("v_rows", v_rows);
  const test::DeviceArray<SequenceSpan> seqs("seqs", kSpans);
  const AppendRows rows{k.data(), v.data(), width, seqs.data(), 4, 4, kKvHeads, head_dim, view_};
  launch_append(rows, nullptr);
  for (std::size_t s = 0; s < kSpans.size(); ++s) {
    for (std::int64_t i = 0; i < kSpans[s].n_queries * width; ++i) {
      const std::int64_t pos = kSpans[s].kv_len - kSpans[s].n_queries + i / width;
      const std::int64_t at = kv_offset(view_, static_cast<std::int64_t>(s), i % width / head_dim, pos) + i % head_dim;
      const auto from = static_cast<std::size_t>(kSpans[s].first_row * width + i);
      EXPECT_EQ(stored(view_.k, at), kvlab::test::rounded(k_rows[from], view_.dtype));
      EXPECT_EQ(stored(view_.v, at), kvlab::test::rounded(v_rows[from], view_.dtype));
    }
  }
  const auto n_bytes = kRows * width * static_cast<std::int64_t>(dtype_bytes(view_.dtype));
  EXPECT_EQ(device_.log().writes_of("k").touched_bytes, n_bytes);
  EXPECT_EQ(device_.log().writes_of("v").touched_bytes, n_bytes);
  EXPECT_EQ(device_.log().reads_of("k_rows").lane_bytes, kRows * width * 4);

  const test::DeviceArray<std::byte> collected("collected",
                                               static_cast<std::size_t>(17 * width) * dtype_bytes(view_.dtype));
  launch_collect_kv(view_, view_.v, 0, kKvHeads, 17, head_dim, collected.data(), nullptr);
  for (std::int64_t i = 0; i < 4 * width; ++i) {  // the positions that were appended
    const std::int64_t pos = 13 + i / width;
    const std::int64_t head = i % width / head_dim;
    EXPECT_EQ(stored(collected.data(), (head * 17 + pos) * head_dim + i % head_dim),
              kvlab::test::rounded(v_rows[static_cast<std::size_t>(i)], view_.dtype));
  }
  EXPECT_EQ(device_.log().writes_of("collected").touched_bytes,
            17 * width * static_cast<std::int64_t>(dtype_bytes(view_.dtype)));
}

TEST_P(CudaAppend, WritesTheKSideAloneWithoutV) {
  const std::int64_t width = kKvHeads * GetParam().head_dim;
  const test::DeviceArray<float> k("k_rows", random_values(kRows * width, 1));
  const test::DeviceArray<SequenceSpan> seqs("seqs", kSpans);
  KvView k_only = view_;
  k_only.v = nullptr;
  launch_append({k.data(), nullptr, width, seqs.data(), 4, 4, kKvHeads, GetParam().head_dim, k_only}, nullptr);
  EXPECT_EQ(device_.log().writes_of("k").touched_bytes,
            kRows * width * static_cast<std::int64_t>(dtype_bytes(view_.dtype)));
  EXPECT_EQ(device_.log().writes_of("v").touched_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Caches, CudaAppend,
                         testing::Values(AppendCase{64, DType::f32, true}, AppendCase{7, DType::f32, false},
                                         AppendCase{8, DType::bf16, true}, AppendCase{200, DType::bf16, false}));

TEST(CudaAppendEdges, RefusesABatchThatNoGridHolds) {
  AppendRows rows;
  rows.n_seqs = 65536;
  rows.max_queries = 1;
  EXPECT_THROW(launch_append(rows, nullptr), InputError);
}

}  // namespace
}  // namespace kvlab::cuda
