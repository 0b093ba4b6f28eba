// Row operations and products of a loaded backend against float64, on the cases of the CPU's tests.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/reference/operations.h"
#include "kernels/sample_row.h"
#include "tests/kernels/backend/loaded_backend.h"
#include "tests/kernels/backend/product_case.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"

namespace kvlab::test {
namespace {

constexpr float kEps = 1e-5F;
constexpr std::int64_t kRows = 3;
constexpr std::int64_t kGap = 5;
const std::vector<std::int64_t> kWidths = {1, 2, 31, 32, 33, 97, 576, 1031};

TEST(BackendEmbed, LooksUpRowsAndAdds) {
  const std::vector<std::int32_t> ids = {6, 0, 6, 3};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : {1, 4, 33}) {
      const HostMatrix table = random_matrix(7, width, 1);
      const auto packed = backend().pack_table(table, dtype);
      BufferOf<float> out(std::vector<float>(static_cast<std::size_t>(4 * width), kUntouched));
      for (const float added : {0.0F, 1.0F}) {  // first overwriting, then on top
        backend().begin_step();
        backend().embed(*packed, ids, out.data(), added != 0.0F);
        const std::vector<float> values = out.values();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto column = static_cast<std::int64_t>(i) % width;
          const float value = rounded(table.row(ids[i / static_cast<std::size_t>(width)])[column], dtype);
          EXPECT_EQ(values[i], value + added * value);
        }
      }
    }
  }
}

TEST(BackendGatherRows, CopiesInTheGivenOrder) {
  const auto src = random_values(5 * 6, 1);
  const BufferOf<float> from(src);
  const BufferOf<float> to(std::vector<float>(3 * 7, kUntouched));
  const std::vector<std::int64_t> rows = {4, 0, 4};
  backend().begin_step();
  backend().gather_rows(from.data(), 6, rows, 5, to.data(), 7);
  const auto dense = without_stride(to.values(), 5, 7);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    EXPECT_EQ(dense[i], src[static_cast<std::size_t>(rows[i / 5]) * 6 + i % 5]);
  }
}

TEST(BackendRmsNorm, MatchesTheReference) {
  for (const std::int64_t width : kWidths) {
    SCOPED_TRACE(width);
    const auto x = random_values(kRows * width, 1);
    const auto weight = random_values(width, 2);
    std::vector<double> expected(x.size());
    reference::rms_norm(widened(x).data(), kRows, width, weight.data(), double{kEps}, expected.data());
    std::vector<double> bounds;
    for (const double value : expected) bounds.push_back(rms_norm_bound(width, value));
    const BufferOf<float> in(with_stride(x, width, width + kGap));
    const BufferOf<float> scale(weight);
    const BufferOf<float> out(std::vector<float>(x.size(), kUntouched));
    backend().rms_norm(in.data(), width + kGap, kRows, width, scale.data(), kEps, out.data(), width);
    expect_within(out.values(), expected, bounds);
    backend().rms_norm(in.data(), width + kGap, kRows, width, scale.data(), kEps, in.data(), width + kGap);
    EXPECT_EQ(without_stride(in.values(), width, width + kGap), out.values()) << "in place differs";
  }
}

TEST(BackendLayerNorm, MatchesTheReference) {
  for (const std::int64_t width : kWidths) {
    SCOPED_TRACE(width);
    const auto x = random_values(kRows * width, 1);
    const auto weight = random_values(width, 2);
    const auto bias = random_values(width, 3);
    std::vector<double> expected(x.size());
    reference::layer_norm(widened(x).data(), kRows, width, weight.data(), bias.data(), double{kEps}, expected.data());
    std::vector<double> bounds;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const float* values = x.data() + row * width;
      double mean = 0, magnitude = 0, variance = 0;
      for (std::int64_t i = 0; i < width; ++i) mean += values[i] / static_cast<double>(width);
      for (std::int64_t i = 0; i < width; ++i) magnitude += std::fabs(values[i]) / static_cast<double>(width);
      for (std::int64_t i = 0; i < width; ++i) variance += std::pow(values[i] - mean, 2) / static_cast<double>(width);
      const double deviation = std::sqrt(variance + double{kEps});
      for (std::int64_t i = 0; i < width; ++i) {
        const auto column = static_cast<std::size_t>(i);
        bounds.push_back(layer_norm_bound(width, magnitude, values[i] - mean, deviation, weight[column], bias[column]));
      }
    }
    const BufferOf<float> in(x);
    const BufferOf<float> scale(weight);
    const BufferOf<float> shift(bias);
    const BufferOf<float> out(std::vector<float>(x.size(), kUntouched));
    backend().layer_norm(in.data(), width, kRows, width, scale.data(), shift.data(), kEps, out.data(), width);
    expect_within(out.values(), expected, bounds);
  }
}

TEST(BackendRope, RotatesAtAnyPosition) {
  constexpr std::int64_t kHeads = 3;
  const std::vector<std::int32_t> positions = {0, 7, 2};
  for (const std::int64_t head_dim : {2, 16, 64, 66}) {
    SCOPED_TRACE(head_dim);
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < head_dim / 2; ++i) {
      frequencies.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
    }
    std::vector<float> table;
    for (int pos = 0; pos < 8; ++pos) {
      for (const double f : frequencies) table.push_back(static_cast<float>(std::cos(pos * f)));
      for (const double f : frequencies) table.push_back(static_cast<float>(std::sin(pos * f)));
    }
    const auto x = random_values(kRows * kHeads * head_dim, 4);
    std::vector<double> expected = widened(x);
    reference::rope(expected.data(), kRows, kHeads, head_dim, positions.data(), frequencies.data());
    const std::int64_t width = kHeads * head_dim;
    const BufferOf<float> rotated(with_stride(x, width, width + kGap));
    const BufferOf<float> cos_sin(table);
    backend().begin_step();
    backend().rope(rotated.data(), width + kGap, kRows, kHeads, head_dim, positions.data(), cos_sin.data());
    expect_within(without_stride(rotated.values(), width, width + kGap), expected,
                  std::vector<double>(x.size(), rope_bound(2)));
  }
}

TEST(BackendActivations, MatchTheReference) {
  for (const std::int64_t width : {1, 31, 32, 129, 1000}) {
    SCOPED_TRACE(width);
    const auto gate_up = random_values(kRows * 2 * width, 5);
    std::vector<double> expected;
    std::vector<double> bounds;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        const double gate = gate_up[static_cast<std::size_t>(row * 2 * width + i)];
        const double up = gate_up[static_cast<std::size_t>(row * 2 * width + width + i)];
        double value = 0;
        reference::silu_multiply(&gate, &up, 1, &value);
        expected.push_back(value);
        bounds.push_back(gate_bound(gate * up, gate, value, 1));
      }
    }
    const BufferOf<float> in(gate_up);
    const BufferOf<float> out(std::vector<float>(expected.size(), kUntouched));
    backend().silu_multiply(in.data(), kRows, width, out.data());
    expect_within(out.values(), expected, bounds);

    const auto x = random_values(width, 6);
    std::vector<double> gelu = widened(x);
    reference::gelu(gelu.data(), width);
    std::vector<double> gelu_bounds;
    for (std::size_t i = 0; i < x.size(); ++i) gelu_bounds.push_back(gate_bound(x[i], 2.0 * x[i], gelu[i], 8));
    const BufferOf<float> activated(x);
    backend().gelu(activated.data(), width);
    expect_within(activated.values(), gelu, gelu_bounds);
  }
}

TEST(BackendEmbed, AnIdThatIsNoneGivesNaN) {
  const HostMatrix table = random_matrix(2, 33, 1);
  const auto packed = backend().pack_table(table, DType::f32);
  const BufferOf<std::int32_t> ids(std::vector<std::int32_t>{1, kNoChoice});
  const BufferOf<float> out(std::vector<float>(2 * 33, 1.0F));
  backend().begin_step();
  backend().embed(*packed, {ids.data(), 2}, out.data(), true);
  const std::vector<float> values = out.values();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i >= 33) << i;
}

TEST(BackendArgmax, TakesTheFirstOfTheLargest) {
  std::vector<float> logits = random_values(5 * 300, 7);
  logits[17] = logits[250] = 2.0F;  // row 0: a tie
  logits[300 + 299] = 3.0F;         // row 1: the last column
  logits[600 + 5] = NAN;
  for (int i = 0; i < 300; ++i) logits[static_cast<std::size_t>(900 + i)] = -INFINITY;
  logits[1200 + 299] = INFINITY;
  const BufferOf<float> values(logits);
  const BufferOf<std::int32_t> ids(std::vector<std::int32_t>(5, 0));
  backend().argmax(values.data(), 300, 5, 300, ids.data());
  EXPECT_EQ(ids.values(), (std::vector<std::int32_t>{17, 299, kNoChoice, kNoChoice, kNoChoice}));
}

TEST(BackendSample, ChoosesWhatTheHostChooses) {
  constexpr std::int64_t kVocab = 1031;
  const std::vector<SamplingSettings> settings = {{0.0, 0, 1.0}, {1.0, 0, 1.0}, {0.7, 40, 1.0},
                                                  {1.5, 0, 0.9}, {3.0, 7, 0.5}, {1.0, 0, 1.0}};
  std::vector<RowSampling> rows;
  for (const SamplingSettings& each : settings) rows.push_back({each, 100 + rows.size()});
  const auto n_rows = static_cast<std::int64_t>(rows.size());
  std::vector<float> logits = random_values(n_rows * kVocab, 3);
  for (float& logit : logits) logit *= 8.0F;
  logits.back() = NAN;  // the last row has no choice
  const BufferOf<float> values(logits);
  const auto scratch = backend().allocate(backend().sample_scratch_bytes(n_rows, kVocab));
  const BufferOf<std::int32_t> ids(std::vector<std::int32_t>(rows.size(), 0));
  for (int draw = 0; draw < 3; ++draw) {
    backend().sample(values.data(), kVocab, kVocab, rows, scratch->data(), ids.data());
    const std::vector<std::int32_t> chosen = ids.values();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      EXPECT_EQ(chosen[r], sample_row(std::span(logits).subspan(r * kVocab, kVocab), rows[r])) << "row " << r;
      rows[r].advance();
    }
    EXPECT_EQ(chosen.back(), kNoChoice);
  }
}

class BackendMatmul : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Storage, BackendMatmul, testing::Values(DType::f32, DType::bf16),
                         [](const auto& chosen) { return std::string(dtype_name(chosen.param)); });

TEST_P(BackendMatmul, RowsAroundTheLimitOfTheGemv) {
  for (const std::int64_t n_rows : {1, 2, 3, 7, 8, 9, 17}) check_product(backend(), {n_rows, 72, 37}, GetParam());
}

TEST_P(BackendMatmul, AnyInputWidth) {
  for (const std::int64_t n_in : {1, 7, 8, 9, 255, 256, 257, 1009}) {
    check_product(backend(), {1, n_in, 33}, GetParam());
    check_product(backend(), {12, n_in, 5}, GetParam());
  }
}

TEST_P(BackendMatmul, BiasAccumulateAndStrides) {
  for (const std::int64_t n_rows : {1, 5, 20}) {
    for (const bool bias : {false, true}) {
      for (const bool accumulate : {false, true})
        check_product(backend(), {n_rows, 64, 50, bias, accumulate, 8}, GetParam());
    }
  }
}

}  // namespace
}  // namespace kvlab::test
