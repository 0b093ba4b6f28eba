// Prefill attention on the emulated device: against float64 that rounds at the same points, on awkward sizes, and with
// its bytes, matrix products and bank conflicts counted.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "tests/kernels/cuda/prefill_step.h"

namespace kvlab::cuda {
namespace {

using emulation::AccessKind;
using test::PrefillCase;
using test::PrefillPart;
using test::PrefillStep;

constexpr int kInstances[] = {32, 64, 96, 128, 256};

void check(const PrefillCase& c, std::uint64_t seed = 0) {
  const emulation::Device device({.seed = seed, .counts = false});
  PrefillStep(c).check();
}

TEST(CudaAttentionPrefill, MeetsTheReferenceForEveryInstance) {
  for (const int head_dim : kInstances) check({.parts = {{37, 101}, {5, 5}}, .head_dim = head_dim}, 3);
}

TEST(CudaAttentionPrefill, AnyMultipleOfEightRunsInTheNextInstance) {
  for (const std::int64_t head_dim : {8, 24, 40, 72, 80, 104, 120, 136, 248}) {
    check({.parts = {{9, 70}}, .head_dim = head_dim});
  }
}

TEST(CudaAttentionPrefill, MeetsTheReferenceAtEveryEdgeOfTilesAndBlocks) {
  const std::int64_t keys = PrefillTile32::kKeys;
  const std::int64_t rows = PrefillTile32::kRows;
  for (const std::int64_t n_queries : {std::int64_t{1}, std::int64_t{15}, std::int64_t{16}, std::int64_t{17}, rows - 1,
                                       rows, rows + 1, std::int64_t{131}}) {
    check({.parts = {{n_queries, n_queries}}, .n_heads = 1, .head_dim = 16, .page_size = 0}, 4);
  }
  for (const std::int64_t kv_len : {keys - 1, keys, keys + 1, 2 * keys, 2 * keys + 1, std::int64_t{197}}) {
    check({.parts = {{3, kv_len}}, .n_heads = 1, .head_dim = 16, .page_size = 0}, 5);
  }
}

TEST(CudaAttentionPrefill, PagesOfAnySizeGiveTheBitsOfOneRegion) {
  PrefillCase c{.parts = {{20, 67}, {33, 33}, {1, 16}}, .n_heads = 4, .n_kv_heads = 2, .page_size = 0};
  const emulation::Device device({.counts = false});
  const auto expected = PrefillStep(c).run();
  for (const std::int64_t page_size : {1, 8, 16, 64}) {
    c.page_size = page_size;
    EXPECT_EQ(PrefillStep(c).run(), expected) << "page size " << page_size;
  }
}

TEST(CudaAttentionPrefill, RaggedBatchesMayHaveEmptyAndSingleRowedSequences) {
  check({.parts = {{0, 0}, {1, 90}, {0, 20}, {40, 41}, {1, 1}, {150, 150}}, .head_dim = 16}, 6);
}

TEST(CudaAttentionPrefill, HeadsOfAnyGroupReadTheirOwnKvHead) {
  for (const auto& [n_heads, n_kv_heads] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 3}, {14, 2}, {71, 1}, {6, 2}, {8, 2}}) {
    check({.parts = {{5, 19}, {3, 3}}, .n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = 8}, 7);
  }
}

TEST(CudaAttentionPrefill, AWindowHidesOlderKeys) {
  const std::int64_t keys = PrefillTile32::kKeys;
  for (const std::int64_t window : {std::int64_t{1}, std::int64_t{7}, keys - 1, keys, keys + 1, std::int64_t{1000}}) {
    check({.parts = {{70, 200}, {5, 5}}, .head_dim = 16, .window = window}, 8);
  }
}

TEST(CudaAttentionPrefill, RowsThatSeeNoKeyGiveZeros) {
  const emulation::Device device({.counts = false});
  PrefillStep step({.parts = {{3, 0}, {4, 2}}, .n_heads = 1, .head_dim = 8});
  step.check();
  const auto out = step.run();
  for (const auto& [seq, query] : std::vector<std::pair<std::size_t, std::int64_t>>{{0, 0}, {0, 2}, {1, 0}, {1, 1}}) {
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(out[static_cast<std::size_t>((step.seqs()[seq].first_row + query) * 8 + i)], 0.0F);
    }
  }
}

TEST(CudaAttentionPrefill, ScoresFarBelowZeroAreNotMasked) {
  const emulation::Device device({.counts = false});
  PrefillStep step({.parts = {{20, 20}}, .n_heads = 1, .head_dim = 8});
  step.q().assign(20 * 8, -704.0F);  // scores: -704 * 85.5 * 8 / 8 = -60192, all alike
  step.keys()[0].assign(20 * 8, 85.5F);
  step.values()[0].assign(20 * 8, 0.25F);
  for (const float value : step.run()) EXPECT_EQ(value, 0.25F) << "every weight is 1";
}

TEST(CudaAttentionPrefill, ARisingMaximumRescalesWhatWasSummed) {
  const emulation::Device device({.counts = false});
  PrefillStep step({.parts = {{150, 150}}, .n_heads = 1, .head_dim = 8});
  for (std::size_t i = 0; i < step.keys()[0].size(); ++i) {  // key j is j / 8: each block has larger scores
    step.keys()[0][i] = static_cast<float>(i / 8) / 8.0F;
  }
  for (float& value : step.q()) value = 0.5F;
  step.check();
}

TEST(CudaAttentionPrefill, AChunkGivesTheBitsOfTheWholePrompt) {
  const emulation::Device device({.counts = false});
  for (const std::int64_t window : {0, 50}) {
    PrefillStep whole({.parts = {{150, 150}}, .n_heads = 2, .head_dim = 16, .window = window});
    PrefillStep chunk({.parts = {{37, 150}}, .n_heads = 2, .head_dim = 16, .window = window});
    chunk.keys() = whole.keys();
    chunk.values() = whole.values();
    const auto row_floats = static_cast<std::ptrdiff_t>(2 * 16);
    chunk.q().assign(whole.q().end() - 37 * row_floats, whole.q().end());
    const auto all = whole.run();
    EXPECT_EQ(chunk.run(), std::vector<float>(all.end() - 37 * row_floats, all.end())) << "window " << window;
  }
}

TEST(CudaAttentionPrefill, NoOrderOfThreadsChangesABit) {
  for (const int head_dim : kInstances) {
    const PrefillCase c{.parts = {{33, 75}, {1, 3}}, .head_dim = head_dim};
    std::vector<float> expected;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const emulation::Device device({.seed = seed, .counts = false});
      const auto out = PrefillStep(c).run();
      if (seed == 0) expected = out;
      EXPECT_EQ(out, expected) << "head_dim " << head_dim << ", seed " << seed;
    }
  }
}

/// Warps and key blocks times the ldmatrix of each, from the FLOPs that the plan counts.
std::int64_t expected_matrix_loads(const PrefillCase& c, const PrefillWork& work) {
  return with_prefill_tile(prefill_instance_dim(c.head_dim), [&]<typename Tile>(Tile) {
    const std::int64_t flops = std::int64_t{4} * Tile::kWarpRows * Tile::kKeys * Tile::kDim;
    EXPECT_EQ(work.mma_flops % flops, 0);
    return work.mma_flops / flops * (Tile::kDim / 16) * (Tile::kRowBlocks + 2 * Tile::kKeys / 16);
  });
}

/// K, V, Q and out must move as the plan says, in whole sectors; shared memory must be used without conflicts.
void check_counts(const PrefillCase& c) {
  SCOPED_TRACE(describe(c));
  emulation::Device device;
  const PrefillStep step(c);
  step.run();
  const PrefillWork work = step.work();
  for (const char* buffer : {"k", "v"}) {
    const auto reads = device.log().reads_of(buffer);
    EXPECT_EQ(reads.lane_bytes, work.k_bytes) << buffer;
    EXPECT_EQ(reads.sectors * 32, work.k_bytes) << buffer;
    EXPECT_EQ(reads.least_sectors * 32, work.k_bytes) << buffer;
    EXPECT_EQ(device.log().of_buffer(buffer, {AccessKind::copy_source}).lane_bytes, work.k_bytes) << "all by cp.async";
  }
  std::int64_t n_rows = 0;
  for (const PrefillPart& part : c.parts) n_rows += part.n_queries;
  const std::int64_t row_bytes = n_rows * c.n_heads * c.head_dim * 4;
  for (const auto& counts : {device.log().reads_of("q"), device.log().writes_of("out")}) {
    EXPECT_EQ(counts.lane_bytes, row_bytes) << "once each";
    EXPECT_EQ(counts.sectors * 32, row_bytes);
    EXPECT_EQ(counts.touched_bytes, row_bytes);
  }
  const auto shared = device.log().of_shared();
  EXPECT_EQ(shared.wavefronts, shared.least_wavefronts);
  EXPECT_EQ(device.log().of_buffer("shared", {AccessKind::matrix_load}).requests, expected_matrix_loads(c, work));
}

TEST(CudaAttentionPrefill, CountedBytesAndProductsAreThePlans) {
  for (const int head_dim : kInstances) check_counts({.parts = {{40, 75}, {0, 9}, {1, 130}}, .head_dim = head_dim});
  for (const std::int64_t page_size : {0, 1, 64}) {
    check_counts({.parts = {{150, 200}}, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .page_size = page_size});
  }
  check_counts({.parts = {{20, 20}, {3, 3}}, .n_heads = 14, .n_kv_heads = 2, .head_dim = 48});
  check_counts({.parts = {{300, 300}}, .n_heads = 1, .head_dim = 16, .window = 40});
}

}  // namespace
}  // namespace kvlab::cuda
