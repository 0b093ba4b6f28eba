// A step of prefill in emulated device memory: random Q, K and V in any layout, the kernel's answer and float64's.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/attention_prefill.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/prefill_reference.h"

namespace kvlab::cuda::test {

struct PrefillPart {
  std::int64_t n_queries = 0;
  std::int64_t kv_len = 0;
};

struct PrefillCase {
  std::vector<PrefillPart> parts;  // one a sequence
  std::int64_t n_heads = 2;
  std::int64_t n_kv_heads = 1;
  std::int64_t head_dim = 32;
  std::int64_t page_size = 16;  // 0: a region for each sequence
  std::int64_t window = 0;
};

inline std::string describe(const PrefillCase& c) {
  std::string text = fmt::format("{}/{} heads of {}, page {}, window {}, queries/keys", c.n_heads, c.n_kv_heads,
                                 c.head_dim, c.page_size, c.window);
  for (const PrefillPart& part : c.parts) text += fmt::format(" {}/{}", part.n_queries, part.kv_len);
  return text;
}

/// Needs a living Device, and must go before it. Every slot of the cache that holds no key is NaN.
class PrefillStep {
 public:
  explicit PrefillStep(const PrefillCase& c) : case_(c) {
    const std::int64_t width = c.n_kv_heads * c.head_dim;
    std::int64_t n_rows = 0;
    std::uint32_t seed = 0;
    for (const PrefillPart& part : c.parts) {
      seqs_.push_back({n_rows, part.n_queries, part.kv_len});
      n_rows += part.n_queries;
      for (auto* rows : {&k_, &v_}) {
        rows->push_back(kvlab::test::random_values(part.kv_len * width, ++seed));
        for (float& value : rows->back()) value = kvlab::test::rounded(value, DType::bf16);
      }
    }
    q_ = kvlab::test::random_values(n_rows * c.n_heads * c.head_dim, ++seed);
    for (SequenceSpan& seq : seqs_) seq.first_row = n_rows - seq.first_row - seq.n_queries;  // not in batch order
    lay_out();
  }

  const std::vector<SequenceSpan>& seqs() const { return seqs_; }
  /// [n_rows, n_heads * head_dim]; seqs() says whose rows are where.
  std::vector<float>& q() { return q_; }
  /// [kv_len, n_kv_heads * head_dim] for each sequence, as are values().
  std::vector<std::vector<float>>& keys() { return k_; }
  std::vector<std::vector<float>>& values() { return v_; }
  PrefillWork work() const {
    return prefill_work({case_.n_heads, case_.n_kv_heads, case_.head_dim, case_.window}, seqs_);
  }

  /// [n_rows, n_heads * head_dim]. What lies between the rows must stay untouched.
  std::vector<float> run() const {
    const std::int64_t width = case_.n_heads * case_.head_dim;
    const std::int64_t stride = width + 8;
    const auto rows = kvlab::test::with_stride(q_, width, stride);
    const DeviceArray<float> q("q", rows);
    const DeviceArray<float> out("out", std::vector<float>(rows.size(), kvlab::test::kUntouched));
    const DeviceArray<SequenceSpan> seqs("seqs", seqs_);
    const DeviceArray<std::int32_t> table("table", table_);
    const DeviceArray<std::int64_t> regions("regions", regions_);
    const DeviceArray<Bf16> k("k", stored(k_));
    const DeviceArray<Bf16> v("v", stored(v_));
    PrefillCall call;
    call.n_seqs = static_cast<std::int64_t>(seqs_.size());
    call.n_heads = case_.n_heads;
    call.n_kv_heads = case_.n_kv_heads;
    call.head_dim = case_.head_dim;
    call.window = case_.window;
    call.scale = static_cast<float>(kScale);
    call.q = q.data();
    call.out = out.data();
    call.q_stride = call.out_stride = stride;
    call.kv = view_;
    call.kv.k = k.data();
    call.kv.v = v.data();
    call.kv.page_table = case_.page_size > 0 ? table.data() : nullptr;
    call.kv.region_offset = case_.page_size > 0 ? nullptr : regions.data();
    call.seqs = seqs.data();
    for (const SequenceSpan& seq : seqs_) call.max_queries = std::max(call.max_queries, seq.n_queries);
    launch_attention_prefill(call, nullptr);
    return kvlab::test::without_stride(out.values(), width, stride);
  }

  /// Runs and compares every row with float64.
  void check() const {
    SCOPED_TRACE(describe(case_));
    const auto actual = run();
    for (std::size_t s = 0; s < seqs_.size(); ++s) {
      for (std::int64_t query = 0; query < seqs_[s].n_queries; ++query) {
        for (std::int64_t head = 0; head < case_.n_heads; ++head) {
          SCOPED_TRACE(fmt::format("sequence {}, query {}, head {}", s, query, head));
          const PrefillAnswer answer = prefill_answer(row_of(s, query, head));
          const float* row = actual.data() + q_place(s, query, head);
          kvlab::test::expect_within({row, answer.out.size()}, answer.out, answer.bounds);
          if (testing::Test::HasFailure()) return;  // one row tells enough
        }
      }
    }
  }

 private:
  static constexpr double kScale = 0.125;  // a power of two: exact in float

  std::int64_t q_place(std::size_t s, std::int64_t query, std::int64_t head) const {
    return ((seqs_[s].first_row + query) * case_.n_heads + head) * case_.head_dim;
  }

  PrefillRow row_of(std::size_t s, std::int64_t query, std::int64_t head) const {
    const std::int64_t dim = case_.head_dim;
    const std::int64_t kv_head = head / (case_.n_heads / case_.n_kv_heads);
    const std::int64_t position = seqs_[s].kv_len - seqs_[s].n_queries + query;
    PrefillRow row;
    row.head_dim = dim;
    row.first_key = case_.window > 0 ? std::max<std::int64_t>(0, position - case_.window + 1) : 0;
    row.block_keys = with_prefill_tile(prefill_instance_dim(dim), []<typename Tile>(Tile) { return Tile::kKeys; });
    row.scale = kScale;
    row.q.assign(q_.begin() + q_place(s, query, head), q_.begin() + q_place(s, query, head) + dim);
    for (std::int64_t key = row.first_key; key <= position; ++key) {
      const std::int64_t at = (key * case_.n_kv_heads + kv_head) * dim;
      row.k.insert(row.k.end(), k_[s].begin() + at, k_[s].begin() + at + dim);
      row.v.insert(row.v.end(), v_[s].begin() + at, v_[s].begin() + at + dim);
    }
    return row;
  }

  /// Sets strides and the table (pages in shuffled order) or the regions.
  void lay_out() {
    std::int64_t longest = 0;
    for (const SequenceSpan& seq : seqs_) longest = std::max(longest, seq.kv_len);
    const auto n_seqs = static_cast<std::int64_t>(seqs_.size());
    view_.dtype = DType::bf16;
    view_.slot_stride = case_.head_dim;
    const std::int64_t slots = case_.page_size > 0 ? case_.page_size : longest + 2;
    view_.head_stride = slots * case_.head_dim;
    view_.page_size = case_.page_size;
    view_.page_stride = case_.n_kv_heads * view_.head_stride;
    view_.pages_per_seq = case_.page_size > 0 ? (longest + slots - 1) / slots : 0;
    table_.resize(static_cast<std::size_t>(n_seqs * view_.pages_per_seq));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(5));
    for (std::int64_t s = 0; s < n_seqs; ++s) regions_.push_back(s * view_.page_stride);
    n_elements_ = (case_.page_size > 0 ? n_seqs * view_.pages_per_seq : n_seqs) * view_.page_stride;
  }

  std::vector<Bf16> stored(const std::vector<std::vector<float>>& rows) const {
    KvView view = view_;
    view.page_table = case_.page_size > 0 ? table_.data() : nullptr;
    view.region_offset = regions_.data();
    std::vector<Bf16> memory(static_cast<std::size_t>(n_elements_),
                             bf16_from_float(std::numeric_limits<float>::quiet_NaN()));
    for (std::size_t s = 0; s < rows.size(); ++s) {
      for (std::size_t i = 0; i < rows[s].size(); ++i) {
        const auto element = static_cast<std::int64_t>(i);
        const std::int64_t head = element / case_.head_dim % case_.n_kv_heads;
        const std::int64_t pos = element / case_.head_dim / case_.n_kv_heads;
        const std::int64_t at = kv_offset(view, static_cast<std::int64_t>(s), head, pos) + element % case_.head_dim;
        memory[static_cast<std::size_t>(at)] = bf16_from_float(rows[s][i]);
      }
    }
    return memory;
  }

  PrefillCase case_;
  std::vector<SequenceSpan> seqs_;
  std::vector<float> q_;
  std::vector<std::vector<float>> k_;
  std::vector<std::vector<float>> v_;
  std::vector<std::int32_t> table_;
  std::vector<std::int64_t> regions_;
  std::int64_t n_elements_ = 0;
  KvView view_;
};

}  // namespace kvlab::cuda::test
