// A decode step in emulated device memory: random Q, K and V in any layout, the kernels' answer and float64's.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/attention_decode.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/kv_layout.h"

namespace kvlab::cuda::test {

struct DecodeCase {
  std::vector<std::int32_t> kv_lens;
  std::int64_t n_heads = 4;
  std::int64_t n_kv_heads = 2;
  std::int64_t head_dim = 64;
  DType dtype = DType::bf16;
  std::int64_t page_size = 16;  // 0: a region for each sequence
  std::int64_t n_workers = 6;
  std::int64_t window = 0;
  float scale = 0.125F;
};

inline std::string describe(const DecodeCase& c) {
  std::string text = fmt::format("{}/{} heads of {}, {}, page {}, {} workers, window {}, keys", c.n_heads, c.n_kv_heads,
                                 c.head_dim, dtype_name(c.dtype), c.page_size, c.n_workers, c.window);
  for (const std::int32_t kv_len : c.kv_lens) text += fmt::format(" {}", kv_len);
  return text;
}

/// Rows of Q and of the output stand in the reverse order of the sequences.
inline std::vector<SequenceSpan> spans_of(const std::vector<std::int32_t>& kv_lens) {
  std::vector<SequenceSpan> spans;
  for (std::size_t s = 0; s < kv_lens.size(); ++s) {
    spans.push_back({static_cast<std::int64_t>(kv_lens.size() - 1 - s), 1, kv_lens[s]});
  }
  return spans;
}

/// The values of a step and where they go.
class DecodeStep {
 public:
  explicit DecodeStep(const DecodeCase& c)
      : case_(c),
        layout_(static_cast<std::int64_t>(c.kv_lens.size()), *std::max_element(c.kv_lens.begin(), c.kv_lens.end()),
                c.n_kv_heads, c.head_dim, c.dtype, c.page_size) {
    std::uint32_t seed = 0;
    const std::int64_t width = c.n_kv_heads * c.head_dim;
    for (const std::int32_t kv_len : c.kv_lens) {
      q_.push_back(kvlab::test::random_values(c.n_heads * c.head_dim, ++seed));
      k_.push_back(kvlab::test::random_values(kv_len * width, ++seed));
      v_.push_back(kvlab::test::random_values(kv_len * width, ++seed));
      for (float& value : k_.back()) value = kvlab::test::rounded(value, c.dtype);
      for (float& value : v_.back()) value = kvlab::test::rounded(value, c.dtype);
    }
  }

  const DecodeCase& the_case() const { return case_; }
  DecodeShape shape() const {
    return {static_cast<std::int64_t>(case_.kv_lens.size()),
            case_.n_heads,
            case_.n_kv_heads,
            case_.head_dim,
            case_.window,
            case_.dtype};
  }
  std::vector<std::vector<float>>& q() { return q_; }
  /// [kv_len, n_kv_heads * head_dim] for each sequence, as are values().
  std::vector<std::vector<float>>& keys() { return k_; }
  std::vector<std::vector<float>>& values() { return v_; }
  const std::vector<std::vector<float>>& q() const { return q_; }
  const KvLayout& layout() const { return layout_; }

  /// K (or V) as the cache holds it. Every slot that holds no key is 1e4.
  template <typename T, typename Convert>
  std::vector<T> stored_keys(Convert convert) const {
    return layout_.stored<T>(k_, convert(1e4F), convert);
  }
  template <typename T, typename Convert>
  std::vector<T> stored_values(Convert convert) const {
    return layout_.stored<T>(v_, convert(1e4F), convert);
  }

  /// Compares rows [n_seqs, n_heads * head_dim] with float64 over the first kv_lens keys. On tensor cores Q is rounded
  /// first, and weights are off by half a unit of bf16, 2^-9, above and below the line: 2 * 2^-9 sum w |v|.
  void expect_near_reference(const std::vector<float>& actual, const std::vector<std::int32_t>& kv_lens) const {
    const bool on_tensor_cores = decode_kernel(shape()).path == DecodePath::tensor_cores;
    std::vector<double> expected;
    std::vector<double> bounds;
    for (std::size_t s = 0; s < q_.size(); ++s) {
      const reference::AttentionShape one{1,
                                          kv_lens[s],
                                          case_.n_heads,
                                          case_.n_kv_heads,
                                          case_.head_dim,
                                          case_.window,
                                          static_cast<double>(case_.scale)};
      auto q = kvlab::test::widened(q_[s]);
      if (on_tensor_cores) {
        for (double& value : q) value = kvlab::test::rounded(static_cast<float>(value), DType::bf16);
      }
      const auto k = kvlab::test::widened(k_[s]);
      const auto v = kvlab::test::widened(v_[s]);
      std::vector<double> out(q.size());
      reference::attention(one, q.data(), k.data(), v.data(), out.data());
      expected.insert(expected.end(), out.begin(), out.end());
      auto part = kvlab::test::attention_bounds(one, q, k, v, false);
      if (on_tensor_cores && !exact_weights_) add_weight_rounding(one, q, k, v, part);
      bounds.insert(bounds.end(), part.begin(), part.end());
    }
    kvlab::test::expect_within(actual, expected, bounds);
  }
  /// The case's weights are powers of two, which no rounding changes.
  void set_exact_weights() { exact_weights_ = true; }

  /// Runs on the living device; rows in the order of the sequences.
  std::vector<float> run() const;
  /// Runs and compares with float64.
  void check() const {
    SCOPED_TRACE(describe(case_));
    expect_near_reference(run(), case_.kv_lens);
  }

 private:
  static void add_weight_rounding(const reference::AttentionShape& one, const std::vector<double>& q,
                                  const std::vector<double>& k, std::vector<double> v, std::vector<double>& bounds) {
    for (double& value : v) value = std::fabs(value);
    std::vector<double> magnitudes(q.size());
    reference::attention(one, q.data(), k.data(), v.data(), magnitudes.data());
    for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] += 2.02 * 0x1p-9 * magnitudes[i];
  }

  DecodeCase case_;
  KvLayout layout_;
  bool exact_weights_ = false;
  std::vector<std::vector<float>> q_;
  std::vector<std::vector<float>> k_;
  std::vector<std::vector<float>> v_;
};

/// A step's buffers on the living device, which must outlive them. T: float or Bf16, as the case says.
template <typename T>
class DecodeMemory {
 public:
  explicit DecodeMemory(const DecodeStep& step)
      : c_(step.the_case()),
        shape_(step.shape()),
        spans_("spans", spans_of(c_.kv_lens)),
        q_("q", rows_of(step.q())),
        out_("out", std::vector<float>(q_.values().size(), kvlab::test::kUntouched)),
        table_("table", step.layout().table()),
        regions_("regions", step.layout().regions()),
        plan_("plan", decode_plan_bytes(shape_, c_.n_workers)),
        workspace_("workspace", decode_workspace_bytes(shape_, c_.n_workers) / sizeof(float)),
        k_("k", step.stored_keys<T>(as_stored)),
        v_("v", step.stored_values<T>(as_stored)),
        call_{shape_,
              c_.n_workers,
              plan_.data(),
              q_.data(),
              stride(),
              out_.data(),
              stride(),
              step.layout().view_over(table_.data(), regions_.data()),
              workspace_.data(),
              c_.scale} {
    call_.kv.k = k_.data();
    call_.kv.v = v_.data();
  }

  /// Lengths of the next launch, none above the case's.
  void set_kv_lens(const std::vector<std::int32_t>& kv_lens) {
    const auto spans = spans_of(kv_lens);
    std::memcpy(spans_.data(), spans.data(), spans.size() * sizeof(SequenceSpan));
  }
  void launch(CUstream_st* stream) const {
    launch_decode_plan(shape_, c_.n_workers, spans_.data(), plan_.data(), stream);
    launch_attention_decode(call_, stream);
  }
  /// Rows in the order of the sequences. What lies between them must be untouched.
  std::vector<float> out() const {
    const std::int64_t width = c_.n_heads * c_.head_dim;
    const auto dense = kvlab::test::without_stride(out_.values(), width, stride());
    std::vector<float> rows;
    for (const SequenceSpan& span : spans_.values()) {
      const auto row = dense.begin() + span.first_row * width;
      rows.insert(rows.end(), row, row + width);
    }
    return rows;
  }
  DecodeCall& call() { return call_; }
  std::vector<unsigned char> plan() const { return plan_.values(); }

 private:
  static T as_stored(float value) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return value;
    } else {
      return bf16_from_float(value);
    }
  }
  std::int64_t stride() const { return c_.n_heads * c_.head_dim + 4; }
  std::vector<float> rows_of(const std::vector<std::vector<float>>& q) const {
    std::vector<float> rows;
    for (auto row = q.rbegin(); row != q.rend(); ++row) {
      const auto wide = kvlab::test::with_stride(*row, c_.n_heads * c_.head_dim, stride());
      rows.insert(rows.end(), wide.begin(), wide.end());
    }
    return rows;
  }

  DecodeCase c_;
  DecodeShape shape_;
  DeviceArray<SequenceSpan> spans_;
  DeviceArray<float> q_;
  DeviceArray<float> out_;
  DeviceArray<std::int32_t> table_;
  DeviceArray<std::int64_t> regions_;
  DeviceArray<unsigned char> plan_;
  DeviceArray<float> workspace_;
  DeviceArray<T> k_;
  DeviceArray<T> v_;
  DecodeCall call_;
};

inline std::vector<float> DecodeStep::run() const {
  const auto run_as = [this]<typename T>(T) {
    const DecodeMemory<T> memory(*this);
    memory.launch(nullptr);
    return memory.out();
  };
  return case_.dtype == DType::f32 ? run_as(0.0F) : run_as(Bf16{});
}

}  // namespace kvlab::cuda::test
