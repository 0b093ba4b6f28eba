// Every tolerance of the kernel tests and where it comes from: worst-case rounding error of the f32 arithmetic, given
// exact inputs. u = 2^-24 is the unit roundoff; a sum of n products in any order is off by at most
// n u sum |a_i b_i| (Higham, Accuracy and Stability, section 3.1; (1 + u)^n - 1 is rounded up to n u + 1 %).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/reference/operations.h"

namespace kvlab::test {

constexpr double kUnitRoundoff = 5.9604644775390625e-8;
constexpr double kSlack = 1.01;  // second-order terms of the bounds below

/// `terms` roundings on a value (or a sum of magnitudes) of this size.
inline double rounding_bound(std::int64_t terms, double magnitude) {
  return kSlack * static_cast<double>(terms) * kUnitRoundoff * magnitude;
}

/// Product: n_in multiply-adds, the bias and what y held: (n_in + 2) u (sum |x w| + |bias| + |y|).
/// `magnitude` is that sum of magnitudes.
inline double matmul_bound(std::int64_t n_in, double magnitude) { return rounding_bound(n_in + 2, magnitude); }

/// RMSNorm: the sum of squares has relative error (n + 1) u, the root halves it; division, eps, root, reciprocal and
/// two products add less than 8 u.
inline double rms_norm_bound(std::int64_t width, double expected) {
  return rounding_bound(width / 2 + 8, expected < 0 ? -expected : expected);
}

/// LayerNorm: the mean is off by d = n u mean|x|. It shifts every centred value c by d and enters the variance squared;
/// the variance's own sum gives (n / 2 + 10) u relative. All is divided by the deviation s and scaled by the weight.
inline double layer_norm_bound(std::int64_t width, double mean_magnitude, double centred, double deviation,
                               double weight, double bias) {
  const double shift = rounding_bound(width + 1, mean_magnitude) / deviation;
  const double value = (centred < 0 ? -centred : centred) / deviation;
  const double scale = weight < 0 ? -weight : weight;
  return scale * (shift + value * shift * shift + rounding_bound(width / 2 + 10, value)) +
         rounding_bound(2, scale * value + (bias < 0 ? -bias : bias));
}

/// Rotation: the table's rounding, a product each and a sum: 4 u (|a| + |b|).
inline double rope_bound(double magnitude) { return rounding_bound(4, magnitude); }

/// x * sigmoid(v): exp is within 1 ulp (2 u) of exp at its argument. An argument off by k u |v| changes the result by
/// at most k u |v| * sigmoid' / sigmoid <= k u |v| relative. k = 1 for SiLU, 8 for GELU's cubic. Division, sum and
/// product add 4 u. Exponents cut at e^88 leave less than |x| e^-88.
inline double gate_bound(double x, double v, double expected, std::int64_t argument_roundings) {
  const auto magnitude = [](double value) { return value < 0 ? -value : value; };
  return rounding_bound(8, magnitude(expected)) +
         rounding_bound(argument_roundings, magnitude(expected) * magnitude(v)) + magnitude(x) * 1e-38;
}

/// Attention, for every element of the output [n_queries, n_heads * head_dim]. A score is off by
/// (head_dim + 2) u scale sum |q k|, and taking off the maximum by another 2 u |score|; call the largest of these e. A
/// weight exp(score) / sum then has relative error at most 2 e, the sums of n terms n u each, and an online softmax
/// rescales at every block of keys (4 u each; at most n blocks counted as n / 16 + 2). So
/// 2 (e + (n + 4 (n / 16 + 2) + 12) u) sum w |v|. `exact_scores`: q, k and scale are such that no score is rounded.
std::vector<double> attention_bounds(const reference::AttentionShape& shape, const std::vector<double>& q,
                                     const std::vector<double>& k, const std::vector<double>& v, bool exact_scores);

}  // namespace kvlab::test
