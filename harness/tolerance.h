// How far logits of two correct computations may lie apart, and the comparison itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/model_config.h"

namespace kvlab {

/// Worst |difference| that f32 rounding explains between f32 logits and exact ones of size `largest_logit`.
///
/// A product of inner length K adds K rounded terms of random sign: a relative error of about u sqrt(K), u = 2^-24. A
/// forward pass chains 4 n_layers + 1 of them (QKV, output, MLP in, MLP out, LM head), whose errors add as a random
/// walk. Twice that, since activation functions, norms and rotations round too; never below kSmallestTolerance, the
/// accuracy of exp and tanh on logits of order one.
///
/// `pooled`: mean-pooled KV heads make a model that nobody trained, which amplifies rounding. In float64, moving the
/// elements of SmolLM2-135M's embedding by one f32 step moves its logits by 3.7e-6, and by 5.2e-5 once its 3 heads are
/// pooled to 1: 14 times as much. kPooledAmplification is about twice that.
double rounding_tolerance(const ModelConfig& config, double largest_logit, bool pooled = false);
constexpr double kPooledAmplification = 32;
constexpr double kSmallestTolerance = 2e-5;

/// What no f32 variant may exceed, however badly a model is conditioned: 1e-3 on logits of order 10.
double project_line(double largest_logit);

/// Of storage rounded to bf16 (u = 2^-9): the same walk with the storage's unit. What the naive variant itself must
/// keep to, before twice its error becomes the bound of others.
double storage_tolerance(const ModelConfig& config, double largest_logit);

/// Where a backend rounds activations to bf16: a difference in f32's last bits decides where a value near a midpoint
/// rounds, and a few layers on two right computations have rounding errors of their own. The same walk, twice that of
/// rounded storage: for each of the two, and since attention rounds Q, K, V and its weights.
double activation_tolerance(const ModelConfig& config, double largest_logit);

struct Difference {
  double worst = 0;  // NaN when either side holds one
  std::int64_t row = -1;
  std::int64_t id = -1;
};

/// The worst |a - b| of one row, kept when it exceeds `so_far`; `row` is for the report. A NaN on either side is worse
/// than any number.
void compare_row(std::span<const float> actual, std::span<const double> expected, std::int64_t row, Difference& so_far);

/// The first id of the largest value among the first `n_choices`.
template <typename Float>
std::int64_t greedy_id(std::span<const Float> logits, std::int64_t n_choices) {
  std::int64_t best = 0;
  for (std::int64_t id = 1; id < n_choices; ++id) {
    if (logits[static_cast<std::size_t>(id)] > logits[static_cast<std::size_t>(best)]) best = id;
  }
  return best;
}

}  // namespace kvlab
