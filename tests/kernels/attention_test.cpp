// Both attentions against float64 over layouts, lengths, head groups and windows, with the dots they execute counted.
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/attention_step.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

using test::AttentionStep;
using test::Layout;
using test::SequenceCase;
using test::StepCase;

class Attention : public testing::TestWithParam<AttentionKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Attention, testing::Values(AttentionKind::naive, AttentionKind::fused),
                         [](const auto& chosen) { return chosen.param == AttentionKind::naive ? "naive" : "fused"; });

TEST_P(Attention, LengthsAroundPageEdges) {
  for (const std::int64_t kv_len : {1, 2, 15, 16, 17, 31, 32, 33}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Layout layout : {Layout::regions, Layout::paged, Layout::rows}) {
        AttentionStep({.seqs = {{1, kv_len}}, .layout = layout, .dtype = dtype}).check(GetParam());
        AttentionStep({.seqs = {{kv_len, kv_len}}, .layout = layout, .dtype = dtype}).check(GetParam());
      }
    }
  }
}

TEST_P(Attention, LengthsAroundKeyBlocksAndSplits) {
  for (const std::int64_t kv_len : {63, 64, 65, 127, 129, 255, 256, 257, 511, 513, 1031}) {
    for (const std::int64_t n_queries : {1, 4, 5, 17}) {
      AttentionStep({.seqs = {{n_queries, kv_len}}}).check(GetParam());
    }
  }
}

TEST_P(Attention, AnyPageSizeGivesTheContiguousBits) {
  const std::vector<SequenceCase> seqs = {{1, 300}, {40, 40}, {3, 129}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto contiguous = AttentionStep({.seqs = seqs, .layout = Layout::regions, .dtype = dtype}).run(GetParam());
    EXPECT_EQ(AttentionStep({.seqs = seqs, .layout = Layout::rows, .dtype = dtype}).run(GetParam()), contiguous);
    for (const std::int64_t page_size : {1, 7, 8, 16, 64, 128, 256, 4096}) {
      AttentionStep paged({.seqs = seqs, .dtype = dtype, .page_size = page_size});
      EXPECT_EQ(paged.run(GetParam()), contiguous) << "page size " << page_size;
    }
  }
}

TEST_P(Attention, HeadGroupsOfAnySize) {
  for (const auto& [n_heads, n_kv_heads] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {28, 4}, {12, 12}, {71, 1}, {6, 2}, {33, 11}, {9, 3}}) {
    StepCase c{.seqs = {{1, 20}, {18, 20}}, .n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = 8};
    AttentionStep step(c);
    step.check(GetParam());
    // With V of KV head h the constant h, each query head gives the number of the KV head it belongs to.
    for (auto& seq : step.sequences()) {
      for (std::size_t i = 0; i < seq.v.size(); ++i) {
        seq.v[i] = static_cast<float>(static_cast<std::int64_t>(i) / 8 % n_kv_heads);
      }
    }
    step.store();
    const auto out = step.run(GetParam());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto head = static_cast<std::int64_t>(i) / 8 % n_heads;
      EXPECT_NEAR(out[i], static_cast<double>(head / (n_heads / n_kv_heads)), 1e-4);
    }
  }
}

TEST_P(Attention, HeadDimensionsAroundVectors) {
  for (const std::int64_t head_dim : {1, 2, 7, 8, 9, 15, 17, 31, 63, 64, 65, 80, 128, 131, 256}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      AttentionStep({.seqs = {{2, 37}}, .head_dim = head_dim, .dtype = dtype}).check(GetParam());
    }
  }
}

TEST_P(Attention, Windows) {
  for (const std::int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 200, 5000}) {
    AttentionStep({.seqs = {{1, 300}, {70, 70}, {9, 150}, {4, 600}}, .window = window}).check(GetParam());
  }
}

TEST_P(Attention, ChunkedPrefillSeesItsOwnKeysOnly) {
  // 3 queries against 10 keys: query i sees keys up to i + 7.
  AttentionStep step({.seqs = {{3, 10}}});
  step.check(GetParam());
  EXPECT_EQ(step.last_work().dots, 8 + 9 + 10);
  EXPECT_EQ(step.last_work().dots_newest_row, 10);
}

TEST_P(Attention, RaggedBatchWithEmptySequences) {
  AttentionStep({.seqs = {{0, 0}, {1, 33}, {0, 20}, {5, 5}, {1, 0}, {2, 700}, {0, 0}}}).check(GetParam());
}

TEST_P(Attention, RowsThatSeeNothingAreZeroAndNeighboursKeepTheirAnswer) {
  // Five rows but three keys: the first two rows stand before the first key.
  AttentionStep step({.seqs = {{5, 3}, {1, 0}, {1, 4}}});
  step.check(GetParam());
  const auto out = step.run(GetParam());
  const std::size_t width = 4 * 16;
  for (std::size_t i = 0; i < 2 * width; ++i) EXPECT_EQ(out[i], 0.0F);
  for (std::size_t i = 5 * width; i < 6 * width; ++i) EXPECT_EQ(out[i], 0.0F);
}

TEST_P(Attention, BatchOfFourEqualsFourOfOne) {
  const std::vector<SequenceCase> seqs = {{1, 290}, {37, 37}, {1, 16}, {5, 600}};
  AttentionStep batch({.seqs = seqs});
  const auto together = batch.run(GetParam(), 2);
  std::vector<float> apart;
  for (std::size_t s = 0; s < seqs.size(); ++s) {
    AttentionStep single({.seqs = {seqs[s]}, .layout = Layout::regions});
    single.sequences()[0] = batch.sequences()[s];
    single.store();
    const auto rows = single.run(GetParam());
    apart.insert(apart.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(together, apart);
}

TEST_P(Attention, DecodeGivesTheBitsOfPrefill) {
  AttentionStep prefill({.seqs = {{530, 530}}});
  const auto all = prefill.run(GetParam());
  for (const std::int64_t kv_len : {1, 64, 257, 513, 530}) {
    AttentionStep decode({.seqs = {{1, kv_len}}});
    const std::int64_t q_width = 4 * 16;
    const std::int64_t kv_width = 2 * 16;
    auto& one = decode.sequences()[0];
    const auto& full = prefill.sequences()[0];
    one.q.assign(full.q.begin() + (kv_len - 1) * q_width, full.q.begin() + kv_len * q_width);
    one.k.assign(full.k.begin(), full.k.begin() + kv_len * kv_width);
    one.v.assign(full.v.begin(), full.v.begin() + kv_len * kv_width);
    decode.store();
    const auto row = decode.run(GetParam(), 2);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), all.begin() + (kv_len - 1) * q_width)) << kv_len;
  }
}

TEST_P(Attention, ThreadsDoNotChangeTheBits) {
  const StepCase c{.seqs = {{1, 2000}, {90, 90}, {3, 700}}, .n_heads = 6};
  const auto one = AttentionStep(c).run(GetParam(), 1);
  for (const int n_threads : {2, 3, 7}) EXPECT_EQ(AttentionStep(c).run(GetParam(), n_threads), one) << n_threads;
}

TEST_P(Attention, MoreSplitsThanPages) {
  AttentionStep({.seqs = {{1, 3000}, {1, 100}}, .page_size = 4096}).check(GetParam(), 2);
}

TEST_P(Attention, LongPrefill) {
  AttentionStep({.seqs = {{700, 700}}, .n_heads = 3, .n_kv_heads = 1, .head_dim = 64}).check(GetParam(), 2);
}

}  // namespace
}  // namespace kvlab
