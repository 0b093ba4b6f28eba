// Cache policies hold what was appended, where the view says, and nothing else; footprints are exact.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/error.h"
#include "variants/cache/kv_cache.h"
#include "variants/cache/page_pool.h"
#include "variants/cache/paged_cache.h"

namespace kvlab {
namespace {

constexpr KvShape kShape{2, 6, 2, 8, DType::f32};  // layers, heads, KV heads, head_dim

std::shared_ptr<Operations> one_thread() {
  static const std::shared_ptr<Operations> ops = make_cpu_operations(1);
  return ops;
}

/// A number that tells sequence, position, layer, head and component apart, exact in f32.
float stamp(std::int64_t seq, std::int64_t layer, std::int64_t pos, std::int64_t head, std::int64_t i) {
  return static_cast<float>((((seq * 4 + layer) * 512 + pos) * 8 + head) * 8 + i);
}

/// Feeds sequence lengths step by step; each step appends the given numbers of rows a sequence.
class Feeder {
 public:
  Feeder(KvCache& cache, std::int64_t n_seqs) : cache_(cache), lengths_(static_cast<std::size_t>(n_seqs), 0) {}

  void step(const std::vector<std::int64_t>& n_new) {
    spans_.clear();
    ids_.clear();
    std::vector<std::int64_t> first_positions;
    std::int64_t rows = 0;
    for (std::size_t seq = 0; seq < n_new.size(); ++seq) {
      if (!cache_.keeps_tokens()) lengths_[seq] = 0;
      first_positions.push_back(lengths_[seq]);
      lengths_[seq] += n_new[seq];
      cache_.reserve(static_cast<std::int64_t>(seq), lengths_[seq]);
      spans_.push_back({rows, n_new[seq], lengths_[seq]});
      ids_.push_back(static_cast<std::int64_t>(seq));
      rows += n_new[seq];
    }
    cache_.begin_step(spans_, ids_);
    const std::int64_t width = (kShape.n_heads + 2 * kShape.n_kv_heads) * kShape.head_dim;
    for (std::int64_t layer = 0; layer < kShape.n_layers; ++layer) {
      buffer_.assign(static_cast<std::size_t>(rows * width), -1.0F);
      for (std::size_t seq = 0; seq < n_new.size(); ++seq) {
        for (std::int64_t row = 0; row < n_new[seq]; ++row) {
          float* target = buffer_.data() + (spans_[seq].first_row + row) * width;
          fill(target, static_cast<std::int64_t>(seq), layer, first_positions[seq] + row);
        }
      }
      float* q = buffer_.data();
      const float* k = q + kShape.n_heads * kShape.head_dim;
      written_bytes += cache_.append(*one_thread(), layer, {q, k, k + kShape.n_kv_heads * kShape.head_dim, width});
      expect_visible(layer);
    }
  }

  std::int64_t written_bytes = 0;

 private:
  static void fill(float* row, std::int64_t seq, std::int64_t layer, std::int64_t pos) {
    row += kShape.n_heads * kShape.head_dim;
    for (std::int64_t head = 0; head < kShape.n_kv_heads; ++head) {
      for (std::int64_t i = 0; i < kShape.head_dim; ++i) *row++ = stamp(seq, layer, pos, head, i);
    }
    for (std::int64_t head = 0; head < kShape.n_kv_heads; ++head) {
      for (std::int64_t i = 0; i < kShape.head_dim; ++i) *row++ = -stamp(seq, layer, pos, head, i) - 1.0F;
    }
  }

  void expect_visible(std::int64_t layer) const {
    const KvView view = cache_.view(layer);
    const auto* k = static_cast<const float*>(view.k);
    const auto* v = static_cast<const float*>(view.v);
    for (std::size_t seq = 0; seq < lengths_.size(); ++seq) {
      for (std::int64_t pos = 0; pos < lengths_[seq]; ++pos) {
        for (std::int64_t head = 0; head < kShape.n_kv_heads; ++head) {
          const std::int64_t at = kv_offset(view, static_cast<std::int64_t>(seq), head, pos);
          const float expected = stamp(static_cast<std::int64_t>(seq), layer, pos, head, 3);
          ASSERT_EQ(k[at + 3], expected) << "seq " << seq << " layer " << layer << " pos " << pos << " head " << head;
          ASSERT_EQ(v[at + 3], -expected - 1.0F);
        }
      }
    }
  }

  KvCache& cache_;
  std::vector<std::int64_t> lengths_;
  std::vector<SequenceSpan> spans_;
  std::vector<std::int64_t> ids_;
  std::vector<float> buffer_;
};

Variant with_cache(CacheKind kind, std::int64_t page_size = 16) {
  Variant variant;
  variant.cache = kind;
  variant.page_size = page_size;
  return variant;
}

TEST(Cache, HoldsEveryRowWhereTheViewSays) {
  const std::vector<Variant> variants = {with_cache(CacheKind::none),      with_cache(CacheKind::contiguous),
                                         with_cache(CacheKind::qkv),       with_cache(CacheKind::paged, 1),
                                         with_cache(CacheKind::paged, 7),  with_cache(CacheKind::paged, 16),
                                         with_cache(CacheKind::paged, 256)};
  for (const Variant& variant : variants) {
    const auto cache = make_cache(variant, kShape, 3, 40, *one_thread());
    Feeder feeder(*cache, 3);
    feeder.step({9, 17, 1});  // ragged prefill
    if (!cache->keeps_tokens()) continue;
    for (int i = 0; i < 16; ++i) feeder.step({1, 1, 1});  // across page edges
    feeder.step({5, 1, 20});                              // a mixed batch
    const std::int64_t tokens = 30 + 34 + 37;
    EXPECT_EQ(feeder.written_bytes, tokens * cache->footprint().bytes_per_token);
    EXPECT_EQ(cache->footprint().used_bytes, tokens * cache->footprint().bytes_per_token);
  }
}

TEST(Cache, ThePeakStaysWhenSequencesGo) {
  const std::int64_t token = kv_bytes_per_token(CacheKind::contiguous, kShape);
  const auto contiguous = make_cache(with_cache(CacheKind::contiguous), kShape, 3, 40, *one_thread());
  const auto paged = make_cache(with_cache(CacheKind::paged), kShape, 3, 40, *one_thread());
  for (KvCache* cache : {contiguous.get(), paged.get()}) {
    cache->reserve(0, 17);
    cache->reserve(1, 1);
    cache->reserve(1, 16);
    cache->release(0);
    cache->reserve(2, 3);
  }
  const KvFootprint regions = contiguous->footprint();
  EXPECT_EQ(regions.reserved_bytes, 2 * 40 * token);
  EXPECT_EQ(regions.peak_bytes, 2 * 40 * token) << "two of three regions at a time";
  const KvFootprint pages = paged->footprint();
  EXPECT_EQ(pages.reserved_bytes, 2 * 16 * token);
  EXPECT_EQ(pages.peak_bytes, 3 * 16 * token + pages.table_bytes);
}

TEST(PagedCache, HoldsTheCeilingOfLenOverPageSize) {
  for (const std::int64_t length : {1, 15, 16, 17, 31, 32, 33, 48}) {
    PagedCache cache(kShape, 2, 48, 16, *one_thread(), 5);
    cache.reserve(1, length);
    EXPECT_EQ(static_cast<std::int64_t>(cache.pages(1).size()), (length + 15) / 16) << length;
    const KvFootprint footprint = cache.footprint();
    EXPECT_EQ(footprint.reserved_bytes, (length + 15) / 16 * 16 * footprint.bytes_per_token);
    EXPECT_EQ(footprint.table_bytes, 2 * 3 * 4);  // sequences x pages a sequence x int32
  }
}

TEST(PagedCache, RefusesOnePageMoreThanTheTableRowHolds) {
  PagedCache cache(kShape, 2, 48, 16, *one_thread(), 5);
  cache.reserve(0, 48);
  try {
    cache.reserve(0, 49);
    FAIL() << "a fourth page was handed out";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("needs 4 pages"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("holds 3"));
  }
  EXPECT_EQ(cache.pages(0).size(), 3U);
}

TEST(PagedCache, ReturnedPagesServeAnotherSequence) {
  PagedCache cache(kShape, 2, 32, 16, *one_thread(), 5);
  cache.reserve(0, 32);
  const std::set<std::int32_t> first(cache.pages(0).begin(), cache.pages(0).end());
  cache.release(0);
  EXPECT_EQ(cache.footprint().reserved_bytes, 0);
  cache.reserve(1, 20);
  for (const std::int32_t page : cache.pages(1)) EXPECT_TRUE(first.contains(page)) << page;
}

TEST(PagePool, HandsOutEveryPageOnceInShuffledOrder) {
  PagePool pool(257, 9);
  std::vector<std::int32_t> pages;
  while (pool.n_free() > 0) pages.push_back(pool.take());
  EXPECT_THROW(pool.take(), InputError);
  EXPECT_EQ(std::set<std::int32_t>(pages.begin(), pages.end()).size(), 257U);
  std::int64_t neighbours = 0;
  for (std::size_t i = 1; i < pages.size(); ++i) neighbours += std::abs(pages[i] - pages[i - 1]) == 1;
  EXPECT_LT(neighbours, 20) << "two in 257 are expected of a random order";
}

TEST(Cache, RefusesMoreTokensThanItsCapacity) {
  for (const CacheKind kind : {CacheKind::none, CacheKind::contiguous, CacheKind::qkv, CacheKind::paged}) {
    const auto cache = make_cache(with_cache(kind, 8), kShape, 1, 24, *one_thread());
    cache->reserve(0, 24);
    EXPECT_THROW(cache->reserve(0, 25), InputError);
  }
  EXPECT_THROW(make_cache(with_cache(CacheKind::paged, 0), kShape, 1, 24, *one_thread()), InputError);
}

TEST(SpecS15, BytesPerToken) {
  const KvShape llama_8b{32, 32, 8, 128, DType::bf16};
  EXPECT_EQ(kv_bytes_per_token(CacheKind::contiguous, llama_8b), 131072);
  const KvShape llama_8b_mha{32, 32, 32, 128, DType::bf16};
  EXPECT_EQ(kv_bytes_per_token(CacheKind::paged, llama_8b_mha), 524288);
  EXPECT_EQ(kv_bytes_per_token(CacheKind::none, llama_8b), 0);
}

TEST(SpecS18, KeepingQGrowsTheBytesByTheRatioOfHeads) {
  const auto ratio = [](std::int64_t heads, std::int64_t kv_heads) {
    const KvShape shape{4, heads, kv_heads, 16, DType::f32};
    return static_cast<double>(kv_bytes_per_token(CacheKind::qkv, shape)) /
           static_cast<double>(kv_bytes_per_token(CacheKind::contiguous, shape));
  };
  EXPECT_EQ(ratio(12, 12), 1.5);
  EXPECT_EQ(ratio(9, 3), 2.5);
  EXPECT_EQ(ratio(32, 8), 3.0);
}

TEST(SpecS18, QIsStoredAndTheViewNeverShowsIt) {
  const auto cache = make_cache(with_cache(CacheKind::qkv), kShape, 1, 8, *one_thread());
  Feeder feeder(*cache, 1);
  feeder.step({4});
  // 4 tokens x 2 layers x (6 + 2 + 2) heads x 8 components x 4 bytes
  EXPECT_EQ(feeder.written_bytes, 4 * 2 * 10 * 8 * 4);
  EXPECT_EQ(cache->footprint().bytes_per_token, 2 * 10 * 8 * 4);
}

}  // namespace
}  // namespace kvlab
