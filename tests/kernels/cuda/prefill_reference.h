// Prefill attention in float64 that rounds where the kernel rounds, and how far the kernel may be from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/dtype.h"
#include "tests/kernels/bounds.h"

namespace kvlab::cuda::test {

/// One row of one head. k, v [n_keys, head_dim], the keys that the row sees, first_key the position of the first; the
/// kernel takes the keys in blocks of block_keys, counted from position 0. q [head_dim], before rounding.
struct PrefillRow {
  std::int64_t head_dim = 0;
  std::int64_t first_key = 0;
  std::int64_t block_keys = 0;
  double scale = 1.0;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

struct PrefillAnswer {
  std::vector<double> out;     // [head_dim]
  std::vector<double> bounds;  // [head_dim]
};

inline double rounded_to_bf16(double value) { return bf16_to_float(bf16_from_float(static_cast<float>(value))); }

/// A key's weight relative to the largest score of its block and those before, with what rounding may do to it.
struct RoundedWeight {
  double exact = 0.0;
  double rounded = 0.0;
  double doubt = 0.0;  // by how much the kernel's rounded weight may differ, other errors aside
};

/// `error`: the relative error of the kernel's weight before rounding. Only where the two ends round apart does the
/// kernel's number come out in doubt.
inline RoundedWeight rounded_weight(double exact, double error) {
  const double lower = rounded_to_bf16(exact * (1.0 - error));
  const double upper = rounded_to_bf16(exact * (1.0 + error));
  return {exact, rounded_to_bf16(exact), upper - lower};
}

/// Scores in units of log 2, and in `error` how far the largest of the kernel's may be off: sums of head_dim terms,
/// times the scale (two roundings), less the largest score (one), of what is itself off as much.
inline std::vector<double> prefill_scores(const PrefillRow& row, double* error) {
  const double factor = row.scale * 1.4426950408889634;
  std::vector<double> scores(row.k.size() / static_cast<std::size_t>(row.head_dim));
  double largest_magnitude = 0.0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    double magnitude = 0.0;
    for (std::size_t i = 0; i < row.q.size(); ++i) {
      const double product = rounded_to_bf16(row.q[i]) * double{row.k[j * row.q.size() + i]};
      scores[j] += product * factor;
      magnitude += std::fabs(product) * factor;
    }
    largest_magnitude = std::max(largest_magnitude, magnitude);
  }
  *error = 2.0 * kvlab::test::rounding_bound(row.head_dim + 4, largest_magnitude);
  return scores;
}

/// The online softmax of the kernel: Q rounded to bf16; each weight rounded relative to the largest score up to and
/// with its block; the total of weights before rounding. Bound, with d = error of a weight before rounding (the
/// score's error times log 2, and exp2's 4 u): the sum of the doubts, and for numerator and denominator each d for the
/// weights, d for the rescalings (which telescope, 4 u a block apart), and n u for the sums.
inline PrefillAnswer prefill_answer(const PrefillRow& row) {
  const auto width = static_cast<std::size_t>(row.head_dim);
  PrefillAnswer answer{std::vector<double>(width), std::vector<double>(width)};
  double score_error = 0.0;
  const std::vector<double> scores = prefill_scores(row, &score_error);
  const auto n_keys = static_cast<std::int64_t>(scores.size());
  if (n_keys == 0) return answer;
  const double error = score_error * 0.6931471805599453 * kvlab::test::kSlack + 4.0 * kvlab::test::kUnitRoundoff;
  double largest = -INFINITY;
  double total = 0.0;
  std::vector<double> doubts(width);
  std::vector<double> magnitudes(width);
  std::int64_t n_blocks = 0;
  for (std::int64_t first = 0; first < n_keys; ++n_blocks) {
    const std::int64_t left_in_block = row.block_keys - (row.first_key + first) % row.block_keys;
    const std::int64_t end = std::min(n_keys, first + left_in_block);
    const double raised = std::max(largest, *std::max_element(scores.begin() + first, scores.begin() + end));
    const double rescale = std::exp2(largest - raised);
    largest = raised;
    total *= rescale;
    for (std::size_t i = 0; i < width; ++i) {
      answer.out[i] *= rescale;
      doubts[i] *= rescale;
      magnitudes[i] *= rescale;
    }
    for (; first < end; ++first) {
      const auto j = static_cast<std::size_t>(first);
      const RoundedWeight weight = rounded_weight(std::exp2(scores[j] - largest), error);
      total += weight.exact;
      for (std::size_t i = 0; i < width; ++i) {
        const double value = row.v[j * width + i];
        answer.out[i] += weight.rounded * value;
        doubts[i] += weight.doubt * std::fabs(value);
        magnitudes[i] += weight.rounded * std::fabs(value);
      }
    }
  }
  const double relative = 2.0 * (2.0 * error + kvlab::test::rounding_bound(n_keys + 4 * n_blocks + 8, 1.0));
  for (std::size_t i = 0; i < width; ++i) {
    answer.out[i] /= total;
    answer.bounds[i] = (doubts[i] + relative * magnitudes[i]) / total + 1e-37;
  }
  return answer;
}

}  // namespace kvlab::cuda::test
