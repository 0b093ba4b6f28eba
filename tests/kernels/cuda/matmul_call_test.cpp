// Row-major products executed as the column-major calls they become, against float64; and what is refused.
#include "kernels/cuda/matmul_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/matmul.h"
#include "kernels/error.h"
#include "kernels/reference/operations.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::matmul_bound;
using kvlab::test::random_values;
using kvlab::test::rounded;
using kvlab::test::widened;

/// Values as they lie in memory: f32, or their bf16 rounding.
class Stored {
 public:
  Stored(const std::vector<float>& values, DType dtype) : dtype_(dtype) {
    for (const float value : values) {
      f32_.push_back(value);
      bf16_.push_back(bf16_from_float(value));
    }
  }
  void* data() { return dtype_ == DType::f32 ? static_cast<void*>(f32_.data()) : static_cast<void*>(bf16_.data()); }
  std::vector<float> values() const {
    std::vector<float> result;
    for (std::size_t i = 0; i < f32_.size(); ++i) {
      result.push_back(dtype_ == DType::f32 ? f32_[i] : bf16_to_float(bf16_[i]));
    }
    return result;
  }

 private:
  DType dtype_;
  std::vector<float> f32_;
  std::vector<Bf16> bf16_;
};

MatrixProduct with_gaps(MatrixProduct product, WeightOrder order, std::int64_t n_batches) {
  product.weight_order = order;
  product.n_batches = n_batches;
  product.x_stride = product.n_in + 3;
  product.w_stride = (order == WeightOrder::out_by_in ? product.n_in : product.n_out) + 1;
  product.y_stride = product.n_out + 2;
  product.x_batch_stride = product.n_rows * product.x_stride + 5;
  product.w_batch_stride = 0;  // shared: as KV heads are by the heads of a group
  product.y_batch_stride = product.n_rows * product.y_stride + 7;
  return product;
}

struct Factors {
  std::vector<float> x;     // [n_batches, x_batch_stride]
  std::vector<float> w;     // [rows of the weight, w_stride]
  std::vector<float> bias;  // [n_out]
  std::vector<float> y;     // [n_batches, y_batch_stride], before and after
};

/// What the product means, element by element, and the bound of f32 arithmetic around it.
void expect_product(const MatrixProduct& product, const Factors& before, const std::vector<float>& after) {
  std::size_t n_checked = 0;
  for (std::int64_t batch = 0; batch < product.n_batches; ++batch) {
    for (std::int64_t row = 0; row < product.n_rows; ++row) {
      for (std::int64_t out = 0; out < product.n_out; ++out) {
        double sum = 0.0;
        double magnitude = 0.0;
        for (std::int64_t i = 0; i < product.n_in; ++i) {
          const bool out_by_in = product.weight_order == WeightOrder::out_by_in;
          const std::int64_t w_at = out_by_in ? out * product.w_stride + i : i * product.w_stride + out;
          const std::int64_t x_at = batch * product.x_batch_stride + row * product.x_stride + i;
          const double term = double{product.scale} * before.x[static_cast<std::size_t>(x_at)] *
                              before.w[static_cast<std::size_t>(w_at)];
          sum += term;
          magnitude += std::fabs(term);
        }
        const auto y_at = static_cast<std::size_t>(batch * product.y_batch_stride + row * product.y_stride + out);
        const double bias = product.has_bias ? before.bias[static_cast<std::size_t>(out)] : 0.0F;
        const double held = product.accumulate ? before.y[y_at] : 0.0F;
        const double expected = sum + bias + held;
        // One rounding more for the scale, and bf16's half unit (2^-8) where the output is rounded to it.
        const double f32 = matmul_bound(product.n_in + 1, magnitude + std::fabs(bias) + std::fabs(held));
        const double storage = product.output_dtype == DType::bf16 ? 0x1p-8 * (std::fabs(expected) + f32) : 0.0;
        ASSERT_LE(std::fabs(after[y_at] - expected), f32 + storage) << batch << ", " << row << ", " << out;
        ++n_checked;
      }
    }
  }
  std::size_t n_changed = 0;
  for (std::size_t i = 0; i < after.size(); ++i) n_changed += after[i] != before.y[i] ? 1U : 0U;
  EXPECT_LE(n_changed, n_checked) << "a gap was written to";
}

void check_product(const MatrixProduct& product) {
  const std::int64_t w_rows = product.weight_order == WeightOrder::out_by_in ? product.n_out : product.n_in;
  const auto round_all = [](std::vector<float> values, DType dtype) {
    for (float& value : values) value = rounded(value, dtype);
    return values;
  };
  const Factors before = {
      round_all(random_values(product.n_batches * product.x_batch_stride, 1), product.input_dtype),
      round_all(random_values(w_rows * product.w_stride, 2), product.input_dtype),
      round_all(random_values(product.n_out, 3), product.output_dtype),
      round_all(random_values(product.n_batches * product.y_batch_stride, 4), product.output_dtype),
  };
  Stored x(before.x, product.input_dtype);
  Stored w(before.w, product.input_dtype);
  Stored bias(before.bias, product.output_dtype);
  Stored y(before.y, product.output_dtype);
  emulation::execute_matmul(column_major_call(product), {w.data(), x.data(), bias.data(), y.data()});
  expect_product(product, before, y.values());
}

TEST(CudaMatmulCall, EveryFormMeansTheRowMajorProduct) {
  for (const WeightOrder order : {WeightOrder::out_by_in, WeightOrder::in_by_out}) {
    for (const auto& [input, output] : std::vector<std::pair<DType, DType>>{
             {DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}}) {
      for (const int form : {0, 1, 2, 3}) {  // bit 0: bias, bit 1: accumulate
        SCOPED_TRACE(testing::Message() << "order " << static_cast<int>(order) << ", " << dtype_name(input) << " to "
                                        << dtype_name(output) << ", form " << form);
        for (const auto& [n_rows, n_in, n_out] :
             {std::array<std::int64_t, 3>{1, 1, 1}, {1, 17, 5}, {7, 16, 8}, {13, 31, 29}}) {
          MatrixProduct product = dense_product(n_rows, n_in, n_out, input);
          product.output_dtype = output;
          product.has_bias = (form & 1) != 0;
          product.accumulate = (form & 2) != 0;
          product.scale = 0.125F;
          check_product(with_gaps(product, order, 3));
        }
      }
    }
  }
}

TEST(CudaMatmulCall, ALinearLayerMeetsTheReference) {
  for (const auto& [n_rows, n_in, n_out] : {std::array<std::int64_t, 3>{1, 576, 192}, {5, 97, 64}, {33, 64, 127}}) {
    const auto x = random_values(n_rows * n_in, 1);
    const auto w = random_values(n_out * n_in, 2);
    const auto bias = random_values(n_out, 3);
    MatrixProduct product = dense_product(n_rows, n_in, n_out, DType::f32);
    product.has_bias = true;
    std::vector<float> y(static_cast<std::size_t>(n_rows * n_out));
    emulation::execute_matmul(column_major_call(product), {w.data(), x.data(), bias.data(), y.data()});
    std::vector<double> expected(y.size());
    reference::matmul(widened(x).data(), n_rows, w.data(), n_out, n_in, bias.data(), expected.data());
    // |x|, |w|, |bias| < 1.
    const std::vector<double> bounds(y.size(), matmul_bound(n_in, static_cast<double>(n_in + 1)));
    kvlab::test::expect_within(y, expected, bounds);
  }
}

TEST(CudaMatmulCall, IsTheCallThatTheManualAsksFor) {
  MatrixProduct product = dense_product(7, 576, 960, DType::bf16);
  product.y_stride = 1024;
  const MatmulCall call = column_major_call(product);
  EXPECT_EQ(call.m, 960);  // features run along the columns of y^T
  EXPECT_EQ(call.n, 7);
  EXPECT_EQ(call.k, 576);
  EXPECT_EQ(call.op_a, MatrixOp::transposed);
  EXPECT_EQ(call.op_b, MatrixOp::as_stored);
  EXPECT_EQ(call.a.rows, 576);
  EXPECT_EQ(call.a.cols, 960);
  EXPECT_EQ(call.a.leading, 576);
  EXPECT_EQ(call.b.rows, 576);
  EXPECT_EQ(call.b.cols, 7);
  EXPECT_EQ(call.d.rows, 960);
  EXPECT_EQ(call.d.cols, 7);
  EXPECT_EQ(call.d.leading, 1024);
  EXPECT_EQ(call.beta, 0.0F);
  product.weight_order = WeightOrder::in_by_out;
  product.w_stride = 960;
  EXPECT_EQ(column_major_call(product).op_a, MatrixOp::as_stored);
  EXPECT_EQ(column_major_call(product).a.leading, 960);
}

TEST(CudaMatmulCall, UnwrittenResultsAreNotRead) {
  std::vector<float> y = {NAN};
  const std::vector<float> one = {1.0F};
  emulation::execute_matmul(column_major_call(dense_product(1, 1, 1, DType::f32)),
                            {one.data(), one.data(), nullptr, y.data()});
  EXPECT_EQ(y[0], 1.0F);
}

std::string refusal(const MatrixProduct& product) {
  try {
    column_major_call(product);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CudaMatmulCall, RefusesWhatHasNoCall) {
  const MatrixProduct good = dense_product(2, 8, 4, DType::f32);
  MatrixProduct bad = good;
  bad.n_rows = 0;
  EXPECT_THAT(refusal(bad), testing::HasSubstr("n_rows is 0"));
  bad = good;
  bad.w_stride = 7;
  EXPECT_THAT(refusal(bad), testing::HasSubstr("w_stride is 7; at least 8"));
  bad.weight_order = WeightOrder::in_by_out;
  EXPECT_EQ(refusal(bad), "accepted") << "rows of 4";
  bad = good;
  bad.n_batches = 2;
  bad.y_batch_stride = 7;
  EXPECT_THAT(refusal(bad), testing::HasSubstr("y_batch_stride is 7; at least 8"));
  bad = good;
  bad.output_dtype = DType::bf16;
  EXPECT_THAT(refusal(bad), testing::HasSubstr("bf16 inputs only"));
}

}  // namespace
}  // namespace kvlab::cuda
