// Lays a step's K and V out as a cache would, and checks an attention on it.
#include "tests/kernels/attention_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/cpu/cpu_operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"

namespace kvlab::test {
namespace {

constexpr float kSpareSlot = 1e4F;
constexpr std::int64_t kGap = 3;  // floats between rows of q and out

std::int64_t pages_of(std::int64_t kv_len, std::int64_t page_size) { return (kv_len + page_size - 1) / page_size; }

}  // namespace

std::string describe(const StepCase& c) {
  std::string text =
      fmt::format("{}/{} heads of {}, window {}, layout {}, page {}, {}, queries/keys", c.n_heads, c.n_kv_heads,
                  c.head_dim, c.window, static_cast<int>(c.layout), c.page_size, dtype_name(c.dtype));
  for (const SequenceCase& seq : c.seqs) text += fmt::format(" {}/{}", seq.n_queries, seq.kv_len);
  return text;
}

AttentionWork expected_work(const StepCase& c) {
  AttentionWork work;
  for (const SequenceCase& seq : c.seqs) {
    for (std::int64_t i = 0; i < seq.n_queries; ++i) {
      std::int64_t seen = std::max<std::int64_t>(0, seq.kv_len - seq.n_queries + i + 1);
      if (c.window > 0) seen = std::min(seen, c.window);
      work.dots += seen;
      if (i == seq.n_queries - 1) work.dots_newest_row += seen;
    }
  }
  return work;
}

AttentionStep::AttentionStep(const StepCase& c) : case_(c), scale_(1.0F / std::sqrt(static_cast<float>(c.head_dim))) {
  std::uint32_t seed = c.seed * 1000;
  for (const SequenceCase& seq : c.seqs) {
    spans_.push_back({n_rows_, seq.n_queries, seq.kv_len});
    n_rows_ += seq.n_queries;
    sequences_.push_back({random_values(seq.n_queries * c.n_heads * c.head_dim, ++seed),
                          random_values(seq.kv_len * c.n_kv_heads * c.head_dim, ++seed),
                          random_values(seq.kv_len * c.n_kv_heads * c.head_dim, ++seed)});
  }
  lay_out();
  store();
}

/// Sets strides, table or regions, and sizes the memory.
void AttentionStep::lay_out() {
  const std::int64_t n_seqs = static_cast<std::int64_t>(case_.seqs.size());
  std::int64_t longest = 1;
  for (const SequenceCase& seq : case_.seqs) longest = std::max(longest, seq.kv_len);
  view_.dtype = case_.dtype;
  view_.slot_stride = case_.head_dim;
  std::int64_t n_elements = 0;
  if (case_.layout == Layout::paged) {
    view_.page_size = case_.page_size;
    view_.head_stride = case_.page_size * case_.head_dim;
    view_.page_stride = case_.n_kv_heads * view_.head_stride;
    view_.pages_per_seq = pages_of(longest, case_.page_size);
    const std::int64_t n_pages = n_seqs * view_.pages_per_seq + 1;
    table_.resize(static_cast<std::size_t>(n_pages));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(case_.seed));
    n_elements = n_pages * view_.page_stride;
  } else if (case_.layout == Layout::regions) {
    const std::int64_t capacity = longest + 2;
    view_.head_stride = capacity * case_.head_dim;
    for (std::int64_t s = 0; s < n_seqs; ++s) regions_.push_back(s * case_.n_kv_heads * view_.head_stride);
    n_elements = n_seqs * case_.n_kv_heads * view_.head_stride;
  } else {
    view_.head_stride = case_.head_dim;
    view_.slot_stride = (case_.n_heads + 2 * case_.n_kv_heads) * case_.head_dim;
    for (const SequenceCase& seq : case_.seqs) {
      regions_.push_back(n_elements);
      n_elements += seq.kv_len * view_.slot_stride;
    }
  }
  k32_.assign(case_.dtype == DType::f32 ? static_cast<std::size_t>(n_elements) : 0, kSpareSlot);
  k16_.assign(case_.dtype == DType::bf16 ? static_cast<std::size_t>(n_elements) : 0, bf16_from_float(kSpareSlot));
  v32_ = k32_;
  v16_ = k16_;
  view_.k = case_.dtype == DType::f32 ? static_cast<void*>(k32_.data()) : k16_.data();
  view_.v = case_.dtype == DType::f32 ? static_cast<void*>(v32_.data()) : v16_.data();
  view_.page_table = case_.layout == Layout::paged ? table_.data() : nullptr;
  view_.region_offset = regions_.data();
}

void AttentionStep::store() {
  const std::int64_t width = case_.n_heads * case_.head_dim;
  q_.clear();
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    Sequence& seq = sequences_[s];
    const auto rows = with_stride(seq.q, width, width + kGap);
    q_.insert(q_.end(), rows.begin(), rows.end());
    for (float& value : seq.k) value = rounded(value, case_.dtype);
    for (float& value : seq.v) value = rounded(value, case_.dtype);
    for (std::size_t i = 0; i < seq.k.size(); ++i) {
      const auto element = static_cast<std::int64_t>(i);
      const std::int64_t head = element / case_.head_dim % case_.n_kv_heads;
      const std::int64_t pos = element / case_.head_dim / case_.n_kv_heads;
      const auto at = static_cast<std::size_t>(kv_offset(view_, static_cast<std::int64_t>(s), head, pos) +
                                               element % case_.head_dim);
      if (case_.dtype == DType::f32) {
        k32_[at] = seq.k[i];
        v32_[at] = seq.v[i];
      } else {
        k16_[at] = bf16_from_float(seq.k[i]);
        v16_[at] = bf16_from_float(seq.v[i]);
      }
    }
  }
  out_.assign(static_cast<std::size_t>(n_rows_ * (width + kGap)), kUntouched);
}

AttentionArgs AttentionStep::args() {
  const std::int64_t stride = case_.n_heads * case_.head_dim + kGap;
  return {q_.data(),     stride,           out_.data(),    stride,       view_, spans_,
          case_.n_heads, case_.n_kv_heads, case_.head_dim, case_.window, scale_};
}

std::vector<float> AttentionStep::run(AttentionKind kind, int n_threads) {
  cpu::CpuOperations ops(n_threads);
  std::fill(out_.begin(), out_.end(), kUntouched);
  work_ = ops.attention(kind, args());
  EXPECT_EQ(ops.held_bytes(kind), ops.attention_workspace_bytes(kind, args())) << "announced scratch";
  const std::int64_t width = case_.n_heads * case_.head_dim;
  return without_stride(out_, width, width + kGap);
}

reference::AttentionShape AttentionStep::shape(std::size_t seq) const {
  return {case_.seqs[seq].n_queries,
          case_.seqs[seq].kv_len,
          case_.n_heads,
          case_.n_kv_heads,
          case_.head_dim,
          case_.window,
          double{scale_}};
}

void AttentionStep::check(AttentionKind kind, int n_threads, bool exact_scores) {
  SCOPED_TRACE(describe(case_) + (kind == AttentionKind::naive ? ", naive" : ", fused"));
  std::vector<double> expected;
  std::vector<double> bounds;
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    const auto q = widened(sequences_[s].q);
    const auto k = widened(sequences_[s].k);
    const auto v = widened(sequences_[s].v);
    std::vector<double> out(q.size());
    reference::attention(shape(s), q.data(), k.data(), v.data(), out.data());
    expected.insert(expected.end(), out.begin(), out.end());
    const auto part = attention_bounds(shape(s), q, k, v, exact_scores);
    bounds.insert(bounds.end(), part.begin(), part.end());
  }
  expect_within(run(kind, n_threads), expected, bounds);
  EXPECT_EQ(work_.dots, expected_work(case_).dots);
  EXPECT_EQ(work_.dots_newest_row, expected_work(case_).dots_newest_row);
}

}  // namespace kvlab::test
