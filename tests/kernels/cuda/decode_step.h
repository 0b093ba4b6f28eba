// A decode step in emulated device memory: random Q, K and V in any layout, the kernels' answer and float64's.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/attention_decode.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda::test {

struct DecodeCase {
  std::vector<std::int32_t> kv_lens;
  std::int64_t n_heads = 4;
  std::int64_t n_kv_heads = 2;
  std::int64_t head_dim = 64;
  DType dtype = DType::bf16;
  std::int64_t page_size = 16;  // 0: a region for each sequence
  std::int64_t n_splits = 3;
  std::int64_t window = 0;
};

inline std::string describe(const DecodeCase& c) {
  std::string text = fmt::format("{}/{} heads of {}, {}, page {}, {} splits, window {}, keys", c.n_heads, c.n_kv_heads,
                                 c.head_dim, dtype_name(c.dtype), c.page_size, c.n_splits, c.window);
  for (const std::int32_t kv_len : c.kv_lens) text += fmt::format(" {}", kv_len);
  return text;
}

/// Needs a living Device, and must go before it. Every slot that holds no key is 1e4.
class DecodeStep {
 public:
  explicit DecodeStep(const DecodeCase& c) : case_(c) {
    std::uint32_t seed = 0;
    const std::int64_t width = c.n_kv_heads * c.head_dim;
    for (const std::int32_t kv_len : c.kv_lens) {
      q_.push_back(kvlab::test::random_values(c.n_heads * c.head_dim, ++seed));
      k_.push_back(kvlab::test::random_values(kv_len * width, ++seed));
      v_.push_back(kvlab::test::random_values(kv_len * width, ++seed));
      for (float& value : k_.back()) value = kvlab::test::rounded(value, c.dtype);
      for (float& value : v_.back()) value = kvlab::test::rounded(value, c.dtype);
    }
    plan_ = plan_decode(shape(), 1);
    plan_.n_splits = c.n_splits;
    lay_out();
  }

  DecodeShape shape() const {
    return {static_cast<std::int64_t>(case_.kv_lens.size()),
            case_.n_heads,
            case_.n_kv_heads,
            case_.head_dim,
            case_.window,
            case_.dtype};
  }
  const DecodePlan& plan() const { return plan_; }
  std::vector<std::vector<float>>& q() { return q_; }
  /// [kv_len, n_kv_heads * head_dim] for each sequence, as are values().
  std::vector<std::vector<float>>& keys() { return k_; }
  std::vector<std::vector<float>>& values() { return v_; }

  /// The rows' outputs, one after the other. What lies between them must stay untouched.
  std::vector<float> run() const {
    const std::int64_t width = case_.n_heads * case_.head_dim;
    const std::int64_t stride = width + 4;
    std::vector<float> rows;
    for (const auto& q : q_) {
      const auto row = kvlab::test::with_stride(q, width, stride);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const DeviceArray<float> q("q", rows);
    const DeviceArray<float> out("out", std::vector<float>(rows.size(), kvlab::test::kUntouched));
    const DeviceArray<float> workspace("workspace", static_cast<std::size_t>(decode_workspace_floats(shape(), plan_)));
    const DeviceArray<std::int32_t> kv_lens("kv_lens", case_.kv_lens);
    const DeviceArray<std::int32_t> table("table", table_);
    const DeviceArray<std::int64_t> regions("regions", regions_);
    DecodeCall call{shape(), plan_, q.data(),       stride,           out.data(),
                    stride,  view_, kv_lens.data(), workspace.data(), static_cast<float>(scale())};
    call.kv.page_table = case_.page_size > 0 ? table.data() : nullptr;
    call.kv.region_offset = case_.page_size > 0 ? nullptr : regions.data();
    if (case_.dtype == DType::f32) {
      launch_on(call, stored<float>(k_, [](float value) { return value; }),
                stored<float>(v_, [](float value) { return value; }));
    } else {
      launch_on(call, stored<Bf16>(k_, bf16_from_float), stored<Bf16>(v_, bf16_from_float));
    }
    return kvlab::test::without_stride(out.values(), width, stride);
  }

  /// Runs and compares with float64.
  void check() const {
    SCOPED_TRACE(describe(case_));
    std::vector<double> expected;
    std::vector<double> bounds;
    for (std::size_t s = 0; s < q_.size(); ++s) {
      const reference::AttentionShape one{
          1, case_.kv_lens[s], case_.n_heads, case_.n_kv_heads, case_.head_dim, case_.window, scale()};
      const auto q = kvlab::test::widened(q_[s]);
      const auto k = kvlab::test::widened(k_[s]);
      const auto v = kvlab::test::widened(v_[s]);
      std::vector<double> out(q.size());
      reference::attention(one, q.data(), k.data(), v.data(), out.data());
      expected.insert(expected.end(), out.begin(), out.end());
      const auto part = kvlab::test::attention_bounds(one, q, k, v, false);
      bounds.insert(bounds.end(), part.begin(), part.end());
    }
    kvlab::test::expect_within(run(), expected, bounds);
  }

 private:
  double scale() const { return 0.125; }  // a power of two: exact in float

  /// Sets strides and the table (pages in shuffled order) or the regions.
  void lay_out() {
    const std::int32_t longest = *std::max_element(case_.kv_lens.begin(), case_.kv_lens.end());
    const auto n_seqs = static_cast<std::int64_t>(case_.kv_lens.size());
    view_.dtype = case_.dtype;
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

  template <typename T, typename Convert>
  std::vector<T> stored(const std::vector<std::vector<float>>& rows, Convert convert) const {
    KvView view = view_;
    view.page_table = case_.page_size > 0 ? table_.data() : nullptr;
    view.region_offset = regions_.data();
    std::vector<T> memory(static_cast<std::size_t>(n_elements_), convert(1e4F));
    for (std::size_t s = 0; s < rows.size(); ++s) {
      for (std::size_t i = 0; i < rows[s].size(); ++i) {
        const auto element = static_cast<std::int64_t>(i);
        const std::int64_t head = element / case_.head_dim % case_.n_kv_heads;
        const std::int64_t pos = element / case_.head_dim / case_.n_kv_heads;
        const std::int64_t at = kv_offset(view, static_cast<std::int64_t>(s), head, pos) + element % case_.head_dim;
        memory[static_cast<std::size_t>(at)] = convert(rows[s][i]);
      }
    }
    return memory;
  }

  template <typename T>
  static void launch_on(DecodeCall call, const std::vector<T>& keys, const std::vector<T>& values) {
    const DeviceArray<T> k("k", keys);
    const DeviceArray<T> v("v", values);
    call.kv.k = k.data();
    call.kv.v = v.data();
    launch_attention_decode(call, nullptr);
  }

  DecodeCase case_;
  DecodePlan plan_;
  std::vector<std::vector<float>> q_;
  std::vector<std::vector<float>> k_;
  std::vector<std::vector<float>> v_;
  std::vector<std::int32_t> table_;
  std::vector<std::int64_t> regions_;
  std::int64_t n_elements_ = 0;
  KvView view_;
};

}  // namespace kvlab::cuda::test
