// Append and both attentions of a loaded backend, together: K and V go into a cache in either layout and come back
// through attention, against float64. Also the same step recorded and replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/reference/operations.h"
#include "tests/kernels/backend/loaded_backend.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/kv_layout.h"

namespace kvlab::test {
namespace {

constexpr std::int64_t kPageSize = 16;
constexpr double kBf16Roundoff = 0x1p-8;

struct Lengths {
  std::int64_t n_queries;
  std::int64_t kv_len;
};

struct StepCase {
  std::string name;
  std::vector<Lengths> seqs;
  std::int64_t n_heads = 4;
  std::int64_t n_kv_heads = 2;
  std::int64_t head_dim = 32;
  std::int64_t window = 0;
  std::vector<DType> dtypes = {DType::f32, DType::bf16};
};

/// One layer's cache in buffers, and a step over it.
class Step {
 public:
  Step(const StepCase& c, DType dtype, bool paged)
      : case_(c),
        dtype_(dtype),
        layout_(static_cast<std::int64_t>(c.seqs.size()), longest(c), c.n_kv_heads, c.head_dim, dtype,
                paged ? kPageSize : 0) {
    std::uint32_t seed = 0;
    for (const Lengths& seq : c.seqs) {
      keys_.push_back(drawn(seq.kv_len * kv_width(), ++seed));
      values_.push_back(drawn(seq.kv_len * kv_width(), ++seed));
      const auto rows = drawn(seq.n_queries * width(), ++seed);
      queries_.push_back(rows);
      q_.insert(q_.end(), rows.begin(), rows.end());
      spans_.push_back({n_rows_, seq.n_queries, seq.kv_len});
      n_rows_ += seq.n_queries;
    }
    allocate();
    fill();
  }

  std::vector<float> run(AttentionKind kind) {
    const BufferOf<float> q(q_);
    const BufferOf<float> out(std::vector<float>(q_.size(), kUntouched));
    backend().begin_step();
    work_ = backend().attention(kind, args(q.data(), out.data()));
    return out.values();
  }

  /// The same by a graph, run twice.
  std::vector<float> replay(AttentionKind kind) {
    const BufferOf<float> q(q_);
    const BufferOf<float> out(std::vector<float>(q_.size(), kUntouched));
    backend().begin_recording();
    backend().attention(kind, args(q.data(), out.data()));
    const auto graph = backend().end_recording();
    graph->run();
    graph->run();
    return out.values();
  }

  void check(AttentionKind kind) {
    const std::vector<float> out = run(kind);
    std::vector<double> expected;
    std::vector<double> bounds;
    std::int64_t dots = 0;
    for (std::size_t s = 0; s < case_.seqs.size(); ++s) {
      const reference::AttentionShape shape = shape_of(s);
      const auto q = widened(queries_[s]);
      const auto k = widened(keys_[s]);
      const auto v = widened(values_[s]);
      std::vector<double> part(q.size());
      reference::attention(shape, q.data(), k.data(), v.data(), part.data());
      expected.insert(expected.end(), part.begin(), part.end());
      std::vector<double> bound = attention_bounds(shape, q, k, v, false);
      if (dtype_ == DType::bf16) add_rounded_weights(shape, q, k, v, bound);
      bounds.insert(bounds.end(), bound.begin(), bound.end());
      for (std::int64_t i = 0; i < shape.n_queries; ++i) {
        const std::int64_t seen = shape.kv_len - shape.n_queries + i + 1;
        dots += case_.window > 0 ? std::min(seen, case_.window) : seen;
      }
    }
    expect_within(out, expected, bounds);
    EXPECT_EQ(work_.dots, dots);
  }

 private:
  static std::int64_t longest(const StepCase& c) {
    std::int64_t most = 0;
    for (const Lengths& seq : c.seqs) most = std::max(most, seq.kv_len);
    return most;
  }

  std::int64_t width() const { return case_.n_heads * case_.head_dim; }
  std::int64_t kv_width() const { return case_.n_kv_heads * case_.head_dim; }

  std::vector<float> drawn(std::int64_t n, std::uint32_t seed) const {
    std::vector<float> values = random_values(n, seed);
    for (float& value : values) value = rounded(value, dtype_);
    return values;
  }

  reference::AttentionShape shape_of(std::size_t s) const {
    return {case_.seqs[s].n_queries, case_.seqs[s].kv_len, case_.n_heads,  case_.n_kv_heads,
            case_.head_dim,          case_.window,         double{scale()}};
  }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(case_.head_dim)); }

  AttentionArgs args(const float* q, float* out) const {
    return {q,      width(), out, width(), view_, spans_, case_.n_heads, case_.n_kv_heads, case_.head_dim, case_.window,
            scale()};
  }

  void allocate() {
    const auto bytes = static_cast<std::size_t>(layout_.n_elements()) * dtype_bytes(dtype_);
    k_ = backend().allocate(bytes);
    v_ = backend().allocate(bytes);
    view_ = layout_.host_view();
    view_.k = k_->data();
    view_.v = v_->data();
  }

  void fill() {
    std::vector<float> k;
    std::vector<float> v;
    std::vector<SequenceSpan> whole;
    for (std::size_t s = 0; s < keys_.size(); ++s) {
      const std::int64_t kv_len = case_.seqs[s].kv_len;
      whole.push_back({static_cast<std::int64_t>(k.size()) / kv_width(), kv_len, kv_len});
      k.insert(k.end(), keys_[s].begin(), keys_[s].end());
      v.insert(v.end(), values_[s].begin(), values_[s].end());
    }
    const BufferOf<float> from_k(k);
    const BufferOf<float> from_v(v);
    backend().begin_step();
    backend().append(from_k.data(), from_v.data(), kv_width(), whole, case_.n_kv_heads, case_.head_dim, view_);
  }

  /// bf16 weights of the softmax: each is off by a roundoff. They are divided by the sum that they had before.
  static void add_rounded_weights(const reference::AttentionShape& shape, const std::vector<double>& q,
                                  const std::vector<double>& k, std::vector<double> v, std::vector<double>& bound) {
    for (double& value : v) value = std::fabs(value);
    std::vector<double> magnitude(q.size());
    reference::attention(shape, q.data(), k.data(), v.data(), magnitude.data());
    for (std::size_t i = 0; i < bound.size(); ++i) bound[i] += kSlack * kBf16Roundoff * magnitude[i];
  }

  StepCase case_;
  DType dtype_;
  std::vector<std::vector<float>> queries_, keys_, values_;  // [n_seqs][rows * width]
  std::vector<float> q_;                                     // [n_rows, width]
  std::vector<SequenceSpan> spans_;
  cuda::test::KvLayout layout_;
  std::int64_t n_rows_ = 0;
  KvView view_;
  std::unique_ptr<Buffer> k_, v_;
  AttentionWork work_;
};

std::vector<StepCase> cases() {
  return {{"Decode", {{1, 1}, {1, 16}, {1, 17}, {1, 97}}},
          {"Prefill", {{1, 1}, {15, 15}, {65, 65}}},
          {"Chunk", {{5, 37}, {16, 48}}},
          {"Mqa", {{1, 33}, {3, 20}}, 8, 1, 64},
          {"Mha", {{1, 50}, {1, 3}}, 3, 3, 40},
          {"Window", {{1, 60}, {20, 45}}, 4, 2, 32, 7},
          {"Wide", {{1, 19}, {6, 6}}, 2, 1, 256},
          {"Llama8bDecode", {{1, 65}, {1, 1}}, 32, 8, 128, 0, {DType::bf16}},
          {"Llama8bPrefill", {{17, 49}}, 32, 8, 128, 0, {DType::bf16}},
          {"HeadDim96", {{1, 33}, {18, 35}}, 4, 1, 96, 0, {DType::bf16}}};
}

struct Choice {
  StepCase step;
  AttentionKind kind;
  DType dtype;
  bool paged;
};

std::vector<Choice> choices() {
  std::vector<Choice> all;
  for (const StepCase& step : cases()) {
    for (const AttentionKind kind : {AttentionKind::naive, AttentionKind::fused}) {
      for (const DType dtype : step.dtypes) {
        for (const bool paged : {false, true}) all.push_back({step, kind, dtype, paged});
      }
    }
  }
  return all;
}

class BackendAttention : public testing::TestWithParam<Choice> {};
INSTANTIATE_TEST_SUITE_P(Cases, BackendAttention, testing::ValuesIn(choices()), [](const auto& chosen) {
  const Choice& c = chosen.param;
  return c.step.name + (c.kind == AttentionKind::naive ? "Naive" : "Fused") + std::string(dtype_name(c.dtype)) +
         (c.paged ? "Paged" : "Contiguous");
});

TEST_P(BackendAttention, MatchesTheReference) {
  const Choice& c = GetParam();
  Step(c.step, c.dtype, c.paged).check(c.kind);
}

TEST_P(BackendAttention, AGraphGivesTheSameBits) {
  const Choice& c = GetParam();
  Step step(c.step, c.dtype, c.paged);
  EXPECT_EQ(step.replay(c.kind), step.run(c.kind));
}

}  // namespace
}  // namespace kvlab::test
