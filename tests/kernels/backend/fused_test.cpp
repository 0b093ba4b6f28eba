// Operations that a backend fuses, against float64: a product with its norm and gate, and rotation with append.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/reference/operations.h"
#include "tests/kernels/backend/loaded_backend.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"

namespace kvlab::test {
namespace {

constexpr float kEps = 1e-5F;

struct Interval {
  double value = 0;
  double bound = 0;
};

/// Rows x [n_rows, n_in] after the norm, as a product with weights of `dtype` takes them: rounded to bf16, a value that
/// the norm's error takes over the middle between two numbers is off by their distance.
std::vector<Interval> normalised(const std::vector<float>& x, const std::vector<float>& weight, std::int64_t n_rows,
                                 DType dtype) {
  const auto n_in = static_cast<std::int64_t>(weight.size());
  std::vector<double> exact(x.size());
  reference::rms_norm(widened(x).data(), n_rows, n_in, weight.data(), double{kEps}, exact.data());
  const auto taken = [dtype](double value) {
    return dtype == DType::f32 ? value : double{rounded(static_cast<float>(value), dtype)};
  };
  std::vector<Interval> result;
  for (const double value : exact) {
    const double off = rms_norm_bound(n_in, value);
    const double between = std::fabs(taken(value + 2 * off) - taken(value - 2 * off));
    result.push_back({taken(value), between});
  }
  return result;
}

Interval product(const Interval* x, const float* weight, std::int64_t n_in, float bias) {
  Interval sum{double{bias}, 0};
  double magnitude = std::fabs(bias);
  for (std::int64_t k = 0; k < n_in; ++k) {
    const double w = weight[k];
    sum.value += x[k].value * w;
    sum.bound += x[k].bound * std::fabs(w);
    magnitude += (std::fabs(x[k].value) + x[k].bound) * std::fabs(w);
  }
  sum.bound += matmul_bound(n_in, magnitude);
  return sum;
}

/// silu(gate) * up; the slope of silu is below 1.1 everywhere.
Interval gated(const Interval& gate, const Interval& up) {
  const double silu = gate.value / (1.0 + std::exp(-gate.value));
  const double value = silu * up.value;
  const double carried = 1.1 * gate.bound * (std::fabs(up.value) + up.bound) + std::fabs(silu) * up.bound;
  return {value, carried + gate_bound(up.value, gate.value, value, 1)};
}

/// n_out counts gates and ups where there is a gate.
void check_fused_product(std::int64_t n_rows, std::int64_t n_in, std::int64_t n_out, DType dtype, bool has_gate) {
  SCOPED_TRACE(testing::Message() << n_rows << " rows, " << n_in << " -> " << n_out << (has_gate ? ", gate" : ""));
  HostMatrix w = random_matrix(n_out, n_in, 1);
  const auto x = random_values(n_rows * n_in, 2);
  const auto norm_weight = random_values(n_in, 3);
  const auto bias = random_values(n_out, 4);
  const auto packed = backend().pack_matrix(w, dtype);
  const std::int64_t width = has_gate ? n_out / 2 : n_out;
  const auto floats = [](std::int64_t n) { return std::vector<float>(static_cast<std::size_t>(n), kUntouched); };
  const BufferOf<float> in(x), scale(norm_weight), shift(bias), out(floats(n_rows * width));
  const BufferOf<float> normed(floats(n_rows * n_in)), gate_up(floats(n_rows * n_out));
  backend().fused_matmul({packed.get(), in.data(), n_rows, scale.data(), kEps, shift.data(), out.data(), normed.data(),
                          has_gate ? gate_up.data() : nullptr});

  for (float& value : w.values) value = rounded(value, dtype);
  const std::vector<Interval> rows = normalised(x, norm_weight, n_rows, dtype);
  std::vector<double> expected;
  std::vector<double> bounds;
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const auto element = [&](std::int64_t j) {
      return product(rows.data() + row * n_in, w.row(j), n_in, bias[static_cast<std::size_t>(j)]);
    };
    for (std::int64_t j = 0; j < width; ++j) {
      const Interval y = has_gate ? gated(element(j), element(width + j)) : element(j);
      expected.push_back(y.value);
      bounds.push_back(y.bound);
    }
  }
  expect_within(out.values(), expected, bounds);
}

TEST(BackendFusedMatmul, MeetsTheReferenceAroundTheLimitOfTheGemv) {
  ASSERT_GE(backend().fusions().product_rows, 1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n_rows : {1, 2, 3, 7, 8, 9}) {  // more rows than fusions() names still give the answer
      check_fused_product(n_rows, 72, 34, dtype, false);
      check_fused_product(n_rows, 72, 34, dtype, true);
    }
    for (const std::int64_t n_in : {1, 31, 257}) check_fused_product(2, n_in, 6, dtype, true);
  }
}

constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kSlots = 12;  // of a region
constexpr std::int64_t kSeqs = 2;

/// A ragged step of two sequences in regions of a contiguous cache.
struct RopeAppendStep {
  std::vector<SequenceSpan> seqs = {{0, 3, 9}, {3, 1, 1}};
  std::vector<std::int32_t> positions = {6, 7, 8, 0};
  std::vector<std::int64_t> regions;  // [kSeqs], the second sequence's first

  KvView view(void* k, void* v, std::int64_t head_dim) {
    regions = {kKvHeads * kSlots * head_dim, 0};
    KvView result;
    result.k = k;
    result.v = v;
    result.head_stride = kSlots * head_dim;
    result.slot_stride = head_dim;
    result.region_offset = regions.data();
    return result;
  }
};

std::vector<double> frequencies(std::int64_t head_dim) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    result.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  return result;
}

std::vector<float> cos_sin_table(std::int64_t head_dim) {
  std::vector<float> table;
  for (std::int64_t pos = 0; pos < kSlots; ++pos) {
    for (const double f : frequencies(head_dim)) {
      table.push_back(static_cast<float>(std::cos(static_cast<double>(pos) * f)));
    }
    for (const double f : frequencies(head_dim)) {
      table.push_back(static_cast<float>(std::sin(static_cast<double>(pos) * f)));
    }
  }
  return table;
}

/// Columns first .. first + n_heads * head_dim of the rows, rotated.
std::vector<double> rotated(const std::vector<float>& rows, const RopeAppendStep& step, std::int64_t width,
                            std::int64_t first, std::int64_t n_heads, std::int64_t head_dim) {
  std::vector<double> result;
  for (std::size_t row = 0; row < step.positions.size(); ++row) {
    const auto from = rows.begin() + static_cast<std::ptrdiff_t>(row) * width + first;
    result.insert(result.end(), from, from + n_heads * head_dim);
  }
  reference::rope(result.data(), static_cast<std::int64_t>(step.positions.size()), n_heads, head_dim,
                  step.positions.data(), frequencies(head_dim).data());
  return result;
}

TEST(BackendRopeAppend, RotatesQInPlaceAndPutsKAndVIntoTheirSlots) {
  ASSERT_TRUE(backend().fusions().rope_append);
  for (const std::int64_t head_dim : {2, 16, 66}) {
    SCOPED_TRACE(head_dim);
    RopeAppendStep step;
    const std::int64_t width = (kHeads + 2 * kKvHeads) * head_dim;
    const auto n_rows = static_cast<std::int64_t>(step.positions.size());
    const auto values = random_values(n_rows * width, 1);
    const std::vector<float> empty(static_cast<std::size_t>(kSeqs * kKvHeads * kSlots * head_dim), kUntouched);
    const BufferOf<float> qkv(values), k(empty), v(empty), cos_sin(cos_sin_table(head_dim));
    const KvView view = step.view(k.data(), v.data(), head_dim);
    backend().begin_step();
    backend().rope_append(
        {qkv.data(), width, kHeads, kKvHeads, head_dim, step.positions, cos_sin.data(), step.seqs, view});

    const auto q_values = qkv.values();
    std::vector<float> q;
    for (std::int64_t i = 0; i < n_rows * width; ++i) {
      if (i % width < kHeads * head_dim) q.push_back(q_values[static_cast<std::size_t>(i)]);
    }
    const double bound = rope_bound(2);  // of a pair of values below 1
    expect_within(q, rotated(values, step, width, 0, kHeads, head_dim), std::vector<double>(q.size(), bound));

    std::vector<double> expected_k(empty.begin(), empty.end());
    std::vector<double> expected_v = expected_k;
    const auto k_rows = rotated(values, step, width, kHeads * head_dim, kKvHeads, head_dim);
    for (std::int64_t row = 0; row < n_rows; ++row) {
      for (std::int64_t i = 0; i < kKvHeads * head_dim; ++i) {
        const std::int64_t at =
            kv_offset(view, row < 3 ? 0 : 1, i / head_dim, step.positions[static_cast<std::size_t>(row)]) +
            i % head_dim;
        expected_k[static_cast<std::size_t>(at)] = k_rows[static_cast<std::size_t>(row * kKvHeads * head_dim + i)];
        expected_v[static_cast<std::size_t>(at)] =
            values[static_cast<std::size_t>(row * width + (kHeads + kKvHeads) * head_dim + i)];
      }
    }
    expect_within(k.values(), expected_k, std::vector<double>(empty.size(), bound));
    expect_within(v.values(), expected_v, std::vector<double>(empty.size(), 0.0));
  }
}

}  // namespace
}  // namespace kvlab::test
