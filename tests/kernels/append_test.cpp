// Appending K and V to a cache: each new position is written once, everything else stays as it was.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/operations.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

constexpr std::int64_t kKvHeads = 3;
constexpr std::int64_t kHeadDim = 5;
constexpr std::int64_t kWidth = kKvHeads * kHeadDim;
constexpr std::int64_t kStride = kWidth + 4;

/// A page pool of one layer, filled with kUntouched.
template <class T>
struct Pool {
  std::vector<T> k;
  std::vector<T> v;
  std::vector<std::int32_t> table;
  KvView view;

  Pool(DType dtype, T fill, std::int64_t page_size, std::int64_t pages_per_seq, std::vector<std::int32_t> pages)
      : table(std::move(pages)) {
    const std::int64_t page = kKvHeads * page_size * kHeadDim;
    k.assign(static_cast<std::size_t>(page) * table.size(), fill);
    v = k;
    view.k = k.data();
    view.v = v.data();
    view.dtype = dtype;
    view.page_stride = page;
    view.head_stride = page_size * kHeadDim;
    view.slot_stride = kHeadDim;
    view.page_size = page_size;
    view.page_table = table.data();
    view.pages_per_seq = pages_per_seq;
  }
};

float value_of(float value) { return value; }
float value_of(Bf16 value) { return bf16_to_float(value); }

template <class T>
void check_append(DType dtype, T fill) {
  const auto ops = make_cpu_operations(1);
  Pool<T> pool(dtype, fill, 4, 3, {5, 0, 3, 1, 4, 2});
  // A prompt of nine tokens beside a sequence that gets its fourth and fifth token; then a decode step of both.
  const std::vector<SequenceSpan> prompt = {{0, 9, 9}, {9, 2, 5}};
  const std::vector<SequenceSpan> decode = {{0, 1, 10}, {1, 1, 6}};
  std::size_t n_written = 0;
  for (const auto& seqs : {prompt, decode}) {
    const auto k = test::random_values(11 * kStride, static_cast<std::uint32_t>(n_written) + 1);
    const auto v = test::random_values(11 * kStride, static_cast<std::uint32_t>(n_written) + 2);
    ops->append(k.data(), v.data(), kStride, seqs, kKvHeads, kHeadDim, pool.view);
    for (std::size_t s = 0; s < seqs.size(); ++s) {
      for (std::int64_t i = 0; i < seqs[s].n_queries; ++i) {
        const std::int64_t pos = seqs[s].kv_len - seqs[s].n_queries + i;
        for (std::int64_t j = 0; j < kWidth; ++j) {
          const auto at = static_cast<std::size_t>(
              kv_offset(pool.view, static_cast<std::int64_t>(s), j / kHeadDim, pos) + j % kHeadDim);
          const auto from = static_cast<std::size_t>((seqs[s].first_row + i) * kStride + j);
          EXPECT_EQ(value_of(pool.k[at]), test::rounded(k[from], dtype));
          EXPECT_EQ(value_of(pool.v[at]), test::rounded(v[from], dtype));
        }
        n_written += static_cast<std::size_t>(kWidth);
      }
    }
  }
  const auto untouched =
      std::count_if(pool.k.begin(), pool.k.end(), [fill](T value) { return value_of(value) == value_of(fill); });
  EXPECT_EQ(static_cast<std::size_t>(untouched), pool.k.size() - n_written);
}

TEST(Append, WritesEachNewPositionOnce) {
  check_append<float>(DType::f32, test::kUntouched);
  check_append<Bf16>(DType::bf16, bf16_from_float(test::kUntouched));
}

TEST(Append, RefusesASequenceLongerThanItsPageTable) {
  const auto ops = make_cpu_operations(1);
  Pool<float> pool(DType::f32, 0.0F, 4, 2, {0, 1});
  const std::vector<SequenceSpan> seqs = {{0, 1, 9}};
  const auto row = test::random_values(kWidth, 1);
  try {
    ops->append(row.data(), row.data(), kWidth, seqs, kKvHeads, kHeadDim, pool.view);
    FAIL() << "nine tokens went into eight slots";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find('9'), std::string::npos);
    EXPECT_NE(std::string(error.what()).find('8'), std::string::npos);
  }
}

TEST(Bf16Conversion, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(bf16_from_float(1.0F).bits, 0x3f80);
  EXPECT_EQ(bf16_from_float(1.0F + 0x1p-8F).bits, 0x3f80);             // a tie: to even
  EXPECT_EQ(bf16_from_float(1.0F + 0x1p-8F + 0x1p-20F).bits, 0x3f81);  // above the tie
  EXPECT_EQ(bf16_from_float(1.0F + 3 * 0x1p-8F).bits, 0x3f82);         // a tie: to even, upwards
  EXPECT_TRUE(std::isinf(bf16_to_float(bf16_from_float(3.4e38F))));
  EXPECT_TRUE(std::isnan(bf16_to_float(bf16_from_float(NAN))));
}

}  // namespace
}  // namespace kvlab
