// Row operations against float64: lookup, gathering, norms, rotation, activations.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/error.h"
#include "kernels/operations.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

const std::vector<std::int64_t> kWidths = {1, 2, 15, 16, 17, 33, 97, 576, 4096};

TEST(Embed, LooksUpRowsAndAdds) {
  const auto ops = make_cpu_operations(1);
  const std::vector<std::int32_t> ids = {6, 0, 6, 3};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : {1, 4, 33}) {
      HostMatrix table = test::random_matrix(7, width, 1);
      const auto packed = ops->pack_table(table, dtype);
      std::vector<float> out(static_cast<std::size_t>(4 * width), 2.0F);
      for (const float added : {0.0F, 1.0F}) {  // first overwriting, then on top
        ops->embed(*packed, ids, out.data(), added != 0.0F);
        for (std::size_t i = 0; i < out.size(); ++i) {
          const auto column = static_cast<std::int64_t>(i) % width;
          const float value = test::rounded(table.row(ids[i / static_cast<std::size_t>(width)])[column], dtype);
          EXPECT_EQ(out[i], value + added * value);
        }
      }
    }
  }
  const auto matrix = ops->pack_matrix(test::random_matrix(7, 4, 1), DType::bf16);
  float out[16];
  EXPECT_THROW(ops->embed(*matrix, ids, out, false), std::invalid_argument);
}

TEST(GatherRows, CopiesInTheGivenOrder) {
  const auto ops = make_cpu_operations(1);
  const auto src = test::random_values(5 * 6, 1);
  std::vector<float> dst(3 * 7, test::kUntouched);
  const std::vector<std::int64_t> rows = {4, 0, 4};
  ops->gather_rows(src.data(), 6, rows, 5, dst.data(), 7);
  const auto dense = test::without_stride(dst, 5, 7);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    EXPECT_EQ(dense[i], src[static_cast<std::size_t>(rows[i / 5]) * 6 + i % 5]);
  }
}

TEST(RmsNorm, MatchesTheReference) {
  constexpr float kEps = 1e-5F;
  for (const std::int64_t width : kWidths) {
    SCOPED_TRACE(width);
    const auto ops = make_cpu_operations(2);
    const auto x = test::random_values(3 * width, 1);
    const auto weight = test::random_values(width, 2);
    const auto x64 = test::widened(x);
    std::vector<double> expected(x.size());
    reference::rms_norm(x64.data(), 3, width, weight.data(), double{kEps}, expected.data());
    std::vector<double> bounds;
    for (const double value : expected) bounds.push_back(test::rms_norm_bound(width, value));
    auto strided = test::with_stride(x, width, width + 5);
    std::vector<float> out(static_cast<std::size_t>(3 * width));
    ops->rms_norm(strided.data(), width + 5, 3, width, weight.data(), kEps, out.data(), width);
    test::expect_within(out, expected, bounds);
    ops->rms_norm(strided.data(), width + 5, 3, width, weight.data(), kEps, strided.data(), width + 5);
    EXPECT_EQ(test::without_stride(strided, width, width + 5), out) << "in place differs";
  }
}

TEST(LayerNorm, MatchesTheReference) {
  constexpr float kEps = 1e-5F;
  for (const std::int64_t width : kWidths) {
    SCOPED_TRACE(width);
    const auto ops = make_cpu_operations(2);
    auto x = test::random_values(3 * width, 1);
    for (float& value : x) value += 3.0F;  // a mean that must be taken off
    const auto weight = test::random_values(width, 2);
    const auto bias = test::random_values(width, 3);
    const auto x64 = test::widened(x);
    std::vector<double> expected(x.size());
    reference::layer_norm(x64.data(), 3, width, weight.data(), bias.data(), double{kEps}, expected.data());
    std::vector<double> bounds;
    for (std::int64_t r = 0; r < 3; ++r) {
      const double* row = x64.data() + r * width;
      const double mean = std::accumulate(row, row + width, 0.0) / static_cast<double>(width);
      double variance = 0.0;
      for (std::int64_t j = 0; j < width; ++j) variance += (row[j] - mean) * (row[j] - mean);
      const double deviation = std::sqrt(variance / static_cast<double>(width) + double{kEps});
      for (std::int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<std::size_t>(j);
        bounds.push_back(test::layer_norm_bound(width, mean, row[j] - mean, deviation, weight[at], bias[at]));
      }
    }
    std::vector<float> out(x.size());
    ops->layer_norm(x.data(), width, 3, width, weight.data(), bias.data(), kEps, out.data(), width);
    test::expect_within(out, expected, bounds);
    ops->layer_norm(x.data(), width, 3, width, weight.data(), bias.data(), kEps, x.data(), width);
    EXPECT_EQ(x, out) << "in place differs";
  }
}

TEST(Norms, ARowDoesNotDependOnTheOthers) {
  const auto one = make_cpu_operations(1);
  const auto three = make_cpu_operations(3);
  const std::int64_t width = 1000;
  const auto x = test::random_values(200 * width, 1);
  const auto weight = test::random_values(width, 2);
  std::vector<float> all(x.size());
  std::vector<float> last(static_cast<std::size_t>(width));
  three->rms_norm(x.data(), width, 200, width, weight.data(), 1e-6F, all.data(), width);
  one->rms_norm(x.data() + 199 * width, width, 1, width, weight.data(), 1e-6F, last.data(), width);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - width));
}

TEST(Rope, MatchesTheReference) {
  const auto ops = make_cpu_operations(2);
  const std::vector<std::int32_t> positions = {0, 1, 17, 99};
  for (const std::int64_t head_dim : {2, 6, 64, 128}) {
    for (const std::int64_t n_heads : {1, 3, 40}) {
      SCOPED_TRACE(testing::Message() << n_heads << " heads of " << head_dim);
      std::vector<double> frequencies;
      for (std::int64_t i = 0; i < head_dim / 2; ++i) {
        frequencies.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
      }
      std::vector<float> cos_sin;  // [100, head_dim]
      for (int pos = 0; pos < 100; ++pos) {
        for (const double f : frequencies) cos_sin.push_back(static_cast<float>(std::cos(pos * f)));
        for (const double f : frequencies) cos_sin.push_back(static_cast<float>(std::sin(pos * f)));
      }
      const std::int64_t width = n_heads * head_dim;
      const auto x = test::random_values(4 * width, 1);
      auto expected = test::widened(x);
      reference::rope(expected.data(), 4, n_heads, head_dim, positions.data(), frequencies.data());
      auto rotated = test::with_stride(x, width, width + 9);
      ops->rope(rotated.data(), width + 9, 4, n_heads, head_dim, positions.data(), cos_sin.data());
      const std::vector<double> bounds(x.size(), test::rope_bound(2.0));  // |a|, |b| <= 1
      test::expect_within(test::without_stride(rotated, width, width + 9), expected, bounds);
    }
  }
}

TEST(Activations, SiluMultiplyMatchesTheReference) {
  const auto ops = make_cpu_operations(2);
  for (const std::int64_t width : {1, 7, 8, 9, 1536}) {
    const std::int64_t n_rows = 11;
    auto gate_up = test::random_values(n_rows * 2 * width, 1);  // [n_rows, 2 * width]
    for (float& value : gate_up) value *= 30.0F;
    gate_up[0] = -200.0F;
    std::vector<float> out(static_cast<std::size_t>(n_rows * width));
    ops->silu_multiply(gate_up.data(), n_rows, width, out.data());
    std::vector<double> expected(out.size());
    std::vector<double> bounds(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(width);
      const std::size_t at = i + row * static_cast<std::size_t>(width);
      const double gate = gate_up[at];
      const double up = gate_up[at + static_cast<std::size_t>(width)];
      reference::silu_multiply(&gate, &up, 1, &expected[i]);
      bounds[i] = test::gate_bound(gate * up, gate, expected[i], 1);
    }
    test::expect_within(out, expected, bounds);
  }
}

TEST(Activations, GeluMatchesTheReference) {
  const auto ops = make_cpu_operations(2);
  for (const std::int64_t n : {1, 7, 8, 9, 4096, 4097, 20011}) {
    auto x = test::random_values(n, 1);
    for (float& value : x) value *= 12.0F;
    x[0] = -1000.0F;
    const auto x64 = test::widened(x);
    auto expected = x64;
    reference::gelu(expected.data(), n);
    ops->gelu(x.data(), n);
    std::vector<double> bounds;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double argument = 1.5957691216057308 * (x64[i] + 0.044715 * x64[i] * x64[i] * x64[i]);
      // Where sigmoid underflows the reference cancels (1 + tanh): it is exact to 1e-16 |x| only.
      bounds.push_back(test::gate_bound(x64[i], argument, expected[i], 8) + 1e-15 * std::fabs(x64[i]));
    }
    test::expect_within(x, expected, bounds);
  }
}

TEST(Activations, NanStaysInItsPlace) {
  const auto ops = make_cpu_operations(1);
  std::vector<float> x(19, 1.0F);
  x[3] = x[18] = NAN;
  std::vector<float> gate_up = x;
  gate_up.insert(gate_up.end(), 19, 1.0F);
  std::vector<float> out(19);
  ops->silu_multiply(gate_up.data(), 1, 19, out.data());
  ops->gelu(x.data(), 19);
  for (std::size_t i = 0; i < 19; ++i) {
    EXPECT_EQ(std::isnan(x[i]), i == 3 || i == 18) << i;
    EXPECT_EQ(std::isnan(out[i]), i == 3 || i == 18) << i;
  }
}

TEST(Allocate, ZeroedAndAligned) {
  const auto ops = make_cpu_operations(1);
  for (const std::size_t bytes : {0UL, 1UL, 63UL, 64UL, 65UL, 1'000'003UL}) {
    const auto buffer = ops->allocate(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0U);
    const auto* begin = static_cast<const unsigned char*>(buffer->data());
    EXPECT_TRUE(std::all_of(begin, begin + bytes, [](unsigned char byte) { return byte == 0; }));
  }
  EXPECT_THROW(ops->allocate(SIZE_MAX - 3), std::bad_alloc);
}

TEST(CpuOperations, NeedsAThread) { EXPECT_THROW(make_cpu_operations(0), InputError); }

}  // namespace
}  // namespace kvlab
