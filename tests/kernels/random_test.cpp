// Values by formula: against numbers from another language, their moments, and K and V in any layout.
#include "kernels/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/operations.h"
#include "kernels/random_kv.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

TEST(RandomValues, AreTheBitsThatAnotherProgramComputes) {
  // By a few lines of Python: integers, IEEE doubles, and a rounding to float where the formula has one.
  struct Known {
    RandomValues values;
    std::uint64_t i;
    std::uint32_t bits;
  };
  const Known known[] = {{{0, 0.0, 1.0}, 0, 0x3f0a1fd1U},
                         {{7, 1.0, 0.1}, 1, 0x3f8cb325U},
                         {{0xed0a5c993585cff1U, 0.0, 1 / 24.0}, 12345678901, 0x3b9a8ca9U},
                         {{std::uint64_t{1} << 63, -2.5, 0.3}, UINT64_MAX, 0xc02758e1U}};
  for (const Known& k : known) EXPECT_EQ(std::bit_cast<std::uint32_t>(random_value(k.values, k.i)), k.bits);
}

TEST(RandomKv, RowsOfAnySequenceHeadAndPositionAreTheirOwn) {
  const RandomKv kv = random_kv(3, 0);
  const std::int64_t positions[] = {0, 1, (std::int64_t{1} << 26) - 1};
  const std::int64_t heads[] = {0, 1, 4095};
  std::set<std::uint64_t> firsts;
  for (const std::int64_t seq : {0, 1, 4095}) {
    for (const std::int64_t head : heads) {
      for (const std::int64_t pos : positions) firsts.insert(random_kv_row(kv, seq, head, pos, 256));
    }
  }
  EXPECT_EQ(firsts.size(), 27U);
  for (auto next = std::next(firsts.begin()); next != firsts.end(); ++next) EXPECT_GE(*next - *std::prev(next), 256U);
  EXPECT_NE(random_kv(3, 0).k.stream, random_kv(3, 0).v.stream);
  EXPECT_NE(random_kv(3, 0).v.stream, random_kv(3, 1).k.stream);
  EXPECT_NE(random_kv(3, 0).k.stream, random_kv(4, 0).k.stream);
}

constexpr std::int64_t kSeqs = 2;
constexpr std::int64_t kKvHeads = 3;
constexpr std::int64_t kHeadDim = 5;
constexpr std::int64_t kTokens = 9;
constexpr std::int64_t kRows = kSeqs * kKvHeads * 12;  // three pages of four slots, or regions of twelve

/// Fills regions or pages of T in the given order on `n_threads` threads and checks every element of the memory.
template <class T>
void check_fill(DType dtype, bool paged, const RandomKv& kv, int n_threads) {
  std::vector<T> k(static_cast<std::size_t>(kRows * kHeadDim), T{});
  std::vector<T> v = k;
  const std::vector<std::int32_t> pages = {5, 0, 3, 1, 4, 2};
  const std::vector<std::int64_t> starts = {kKvHeads * 12 * kHeadDim, 0};
  KvView view;
  view.k = k.data();
  view.v = v.data();
  view.dtype = dtype;
  view.slot_stride = kHeadDim;
  view.head_stride = (paged ? 4 : 12) * kHeadDim;
  view.page_size = 4;
  view.page_stride = kKvHeads * 4 * kHeadDim;
  view.pages_per_seq = 3;
  view.page_table = paged ? pages.data() : nullptr;
  view.region_offset = starts.data();
  make_cpu_operations(n_threads)->fill_kv(kv, kSeqs, kTokens, kKvHeads, kHeadDim, view);

  const auto as_float = [](auto value) {
    if constexpr (std::is_same_v<T, float>) return value;
    if constexpr (std::is_same_v<T, Bf16>) return bf16_to_float(value);
  };
  for (std::int64_t seq = 0; seq < kSeqs; ++seq) {
    for (std::int64_t head = 0; head < kKvHeads; ++head) {
      for (std::int64_t pos = 0; pos < 12; ++pos) {
        const std::int64_t at = kv_offset(view, seq, head, pos);
        const std::uint64_t row = random_kv_row(kv, seq, head, pos, kHeadDim);
        for (std::int64_t i = 0; i < kHeadDim; ++i) {
          const auto element = row + static_cast<std::uint64_t>(i);
          const bool filled = pos < kTokens;
          const auto slot = static_cast<std::size_t>(at + i);
          ASSERT_EQ(as_float(k[slot]), filled ? test::rounded(random_value(kv.k, element), dtype) : 0.0F);
          ASSERT_EQ(as_float(v[slot]), filled ? test::rounded(random_value(kv.v, element), dtype) : 0.0F);
        }
      }
    }
  }
}

TEST(RandomKv, FillsTheSameElementsWhateverTheLayoutAndTheThreads) {
  RandomKv kv = random_kv(11, 2);
  kv.first_seq = 5;
  for (const bool paged : {false, true}) {
    for (const int n_threads : {1, 2}) {
      check_fill<float>(DType::f32, paged, kv, n_threads);
      check_fill<Bf16>(DType::bf16, paged, kv, n_threads);
    }
  }
}

TEST(RandomKv, ReplicatedHeadsShareTheirRows) {
  RandomKv kv = random_kv(1, 0);
  kv.heads_per_row = 3;
  EXPECT_EQ(random_kv_row(kv, 1, 3, 7, 64), random_kv_row(random_kv(1, 0), 1, 1, 7, 64));
  EXPECT_EQ(random_kv_row(kv, 1, 5, 7, 64), random_kv_row(random_kv(1, 0), 1, 1, 7, 64));
}

}  // namespace
}  // namespace kvlab
