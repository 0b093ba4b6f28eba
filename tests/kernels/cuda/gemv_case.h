// One GEMV in emulated device memory, with its answer in float64, rounded where the kernel rounds, and the bound that
// its f32 arithmetic keeps.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/gemv.h"
#include "kernels/dtype.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda::test {

struct GemvCase {
  std::int64_t n_rows = 1;
  std::int64_t n_out = 1;
  std::int64_t n_in = 1;
  DType dtype = DType::f32;
  bool has_bias = false;
  bool accumulate = false;
  bool normalises = false;
  bool gate_up = false;
  std::int64_t gap = 0;  // between rows of x and of y

  std::int64_t width() const { return gate_up ? n_out / 2 : n_out; }
};

inline std::string describe(const GemvCase& c) {
  std::string text = std::to_string(c.n_rows) + " rows, " + std::string(dtype_name(c.dtype)) + " [" +
                     std::to_string(c.n_out) + ", " + std::to_string(c.n_in) + "]";
  if (c.has_bias) text += ", bias";
  if (c.accumulate) text += ", accumulate";
  if (c.normalises) text += ", norm";
  if (c.gate_up) text += ", gate_up";
  if (c.gap > 0) text += ", gap " + std::to_string(c.gap);
  return text;
}

class GemvProblem {
 public:
  static constexpr float kEps = 1e-5F;

  explicit GemvProblem(const GemvCase& c)
      : case_(c),
        x_(kvlab::test::random_values(c.n_rows * c.n_in, 31)),
        weight_(kvlab::test::random_values(c.n_out * c.n_in, 32)),
        norm_(kvlab::test::random_values(c.n_in, 33)),
        bias_(kvlab::test::random_values(c.n_out, 34)),
        y_(kvlab::test::random_values(c.n_rows * c.width(), 35)) {
    if (!c.accumulate) y_.assign(y_.size(), std::nanf(""));  // must not be read
    for (float& value : weight_) value = kvlab::test::rounded(value, c.dtype);
  }

  std::vector<float>& x() { return x_; }
  std::vector<float>& weight() { return weight_; }

  /// Copies the problem to the device; the memory lives as long as the problem.
  GemvCall call() {
    const GemvCase& c = case_;
    memory_ = std::make_unique<Memory>(*this);
    GemvCall call;
    call.weight = c.dtype == DType::f32 ? static_cast<const void*>(memory_->f32.data()) : memory_->bf16.data();
    call.dtype = c.dtype;
    call.n_out = c.n_out;
    call.n_in = c.n_in;
    call.x = memory_->x.data();
    call.x_stride = c.n_in + c.gap;
    call.n_rows = c.n_rows;
    call.y = memory_->y.data();
    call.y_stride = c.width() + c.gap;
    call.bias = c.has_bias ? memory_->bias.data() : nullptr;
    call.norm_weight = c.normalises ? memory_->norm.data() : nullptr;
    call.norm_eps = kEps;
    call.accumulate = c.accumulate;
    call.gate_up = c.gate_up;
    return call;
  }

  /// y [n_rows, width]
  std::vector<float> run() {
    launch_gemv(call(), nullptr);
    return kvlab::test::without_stride(memory_->y.values(), case_.width(), case_.width() + case_.gap);
  }

  void check() {
    SCOPED_TRACE(describe(case_));
    const std::vector<float> y = run();
    std::vector<double> expected;
    std::vector<double> bounds;
    for (std::int64_t row = 0; row < case_.n_rows; ++row) {
      for (std::int64_t j = 0; j < case_.width(); ++j) {
        const Element element = reference(row, j);
        expected.push_back(element.value);
        bounds.push_back(element.bound);
      }
    }
    kvlab::test::expect_within(y, expected, bounds);
  }

 private:
  struct Memory {
    explicit Memory(const GemvProblem& p)
        : x("x", kvlab::test::with_stride(p.x_, p.case_.n_in, p.case_.n_in + p.case_.gap)),
          f32("weight", p.case_.dtype == DType::f32 ? p.weight_ : std::vector<float>()),
          bf16("weight", p.case_.dtype == DType::bf16 ? narrowed(p.weight_) : std::vector<Bf16>()),
          norm("norm", p.norm_),
          bias("bias", p.bias_),
          y("y", kvlab::test::with_stride(p.y_, p.case_.width(), p.case_.width() + p.case_.gap)) {}

    static std::vector<Bf16> narrowed(const std::vector<float>& values) {
      std::vector<Bf16> out;
      for (const float value : values) out.push_back(bf16_from_float(value));
      return out;
    }

    DeviceArray<float> x;
    DeviceArray<float> f32;
    DeviceArray<Bf16> bf16;
    DeviceArray<float> norm;
    DeviceArray<float> bias;
    DeviceArray<float> y;
  };

  struct Element {
    double value;
    double bound;
  };

  /// One value of x as the product takes it, and how far the kernel's may be off. The normalised value is off by
  /// rms_norm_bound in f32; a value so near to the middle between two bf16 that this decides is off by their distance,
  /// 2^-7 of its size at most.
  Element input(std::int64_t row, std::int64_t k, double scale) const {
    const double x = x_[static_cast<std::size_t>(row * case_.n_in + k)];
    if (!case_.normalises) return {static_cast<double>(kvlab::test::rounded(static_cast<float>(x), case_.dtype)), 0.0};
    const double exact = x * scale * norm_[static_cast<std::size_t>(k)];
    const double off = kvlab::test::rms_norm_bound(case_.n_in, exact);
    if (case_.dtype == DType::f32) return {exact, off};
    const auto rounded = [](double value) { return bf16_to_float(bf16_from_float(static_cast<float>(value))); };
    const double value = rounded(exact);
    return {value, std::fabs(rounded(exact + 2 * off) - rounded(exact - 2 * off))};
  }

  double scale(std::int64_t row) const {
    double squares = 0.0;
    for (std::int64_t k = 0; k < case_.n_in; ++k) {
      const double x = x_[static_cast<std::size_t>(row * case_.n_in + k)];
      squares += x * x;
    }
    return 1.0 / std::sqrt(squares / static_cast<double>(case_.n_in) + double{kEps});
  }

  /// x[row] . weight[weight_row] + bias
  Element product(std::int64_t row, std::int64_t weight_row) const {
    Element sum{0.0, 0.0};
    double magnitude = 0.0;
    const double row_scale = case_.normalises ? scale(row) : 1.0;
    for (std::int64_t k = 0; k < case_.n_in; ++k) {
      const double weight = weight_[static_cast<std::size_t>(weight_row * case_.n_in + k)];
      const Element x = input(row, k, row_scale);
      sum.value += x.value * weight;
      sum.bound += x.bound * std::fabs(weight);
      magnitude += (std::fabs(x.value) + x.bound) * std::fabs(weight);
    }
    if (case_.has_bias) {
      const double bias = bias_[static_cast<std::size_t>(weight_row)];
      sum.value += bias;
      magnitude += std::fabs(bias);
    }
    sum.bound += kvlab::test::matmul_bound(case_.n_in, magnitude);
    return sum;
  }

  Element reference(std::int64_t row, std::int64_t j) const {
    Element result = product(row, j);
    if (case_.gate_up) result = gated(result, product(row, case_.width() + j));
    if (case_.accumulate) {
      result.value += y_[static_cast<std::size_t>(row * case_.width() + j)];
      result.bound += kvlab::test::rounding_bound(1, std::fabs(result.value) + result.bound);
    }
    return result;
  }

  /// silu(gate) * up. The slope of silu is below 1.1 everywhere.
  static Element gated(const Element& gate, const Element& up) {
    const double silu = gate.value / (1.0 + std::exp(-gate.value));
    const double value = silu * up.value;
    const double silu_bound = 1.1 * gate.bound;
    const double propagated = silu_bound * (std::fabs(up.value) + up.bound) + std::fabs(silu) * up.bound;
    return {value, propagated + kvlab::test::gate_bound(up.value, gate.value, value, 1)};
  }

  GemvCase case_;
  std::vector<float> x_;       // [n_rows, n_in]
  std::vector<float> weight_;  // [n_out, n_in], as stored
  std::vector<float> norm_;    // [n_in]
  std::vector<float> bias_;    // [n_out]
  std::vector<float> y_;       // [n_rows, width] before the launch
  std::unique_ptr<Memory> memory_;
};

}  // namespace kvlab::cuda::test
