// A step of prefill in emulated device memory: random Q, K and V in any layout, the kernel's answer and float64's.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/attention_prefill.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/kv_layout.h"
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
  explicit PrefillStep(const PrefillCase& c)
      : case_(c),
        layout_(static_cast<std::int64_t>(c.parts.size()), longest(c), c.n_kv_heads, c.head_dim, DType::bf16,
                c.page_size) {
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
    const DeviceArray<std::int32_t> table("table", layout_.table());
    const DeviceArray<std::int64_t> regions("regions", layout_.regions());
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
    call.kv = layout_.view_over(table.data(), regions.data());
    call.kv.k = k.data();
    call.kv.v = v.data();
    call.seqs = seqs.data();
    call.max_queries = most_queries(seqs_);
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

  static std::int64_t longest(const PrefillCase& c) {
    std::int64_t most = 0;
    for (const PrefillPart& part : c.parts) most = std::max(most, part.kv_len);
    return most;
  }

  std::vector<Bf16> stored(const std::vector<std::vector<float>>& rows) const {
    return layout_.stored<Bf16>(rows, bf16_from_float(std::numeric_limits<float>::quiet_NaN()), bf16_from_float);
  }

  PrefillCase case_;
  KvLayout layout_;
  std::vector<SequenceSpan> seqs_;
  std::vector<float> q_;
  std::vector<std::vector<float>> k_;
  std::vector<std::vector<float>> v_;
};

}  // namespace kvlab::cuda::test
