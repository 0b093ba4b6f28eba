// Where the float64 pass rounds as a backend does that multiplies in bf16, and the noise of what f32
// arithmetic leaves open. The pass itself: reference_forward.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/random.h"

namespace kvlab {

/// Nothing by default: all arithmetic is float64.
struct ReferenceRounding {
  bool product_inputs = false;       // x of every product, where weights are bf16
  bool kv = false;                   // K and V
  std::vector<bool> attention;       // [n_tokens] rows whose Q and softmax weights are rounded; empty: none
  std::vector<bool> last_attention;  // [n_tokens] the same in the last layer, where a pass may have fewer rows

  bool operator==(const ReferenceRounding&) const = default;
};

inline double rounded_to_bf16(double value) { return bf16_to_float(bf16_from_float(static_cast<float>(value))); }

inline void round_to_bf16(std::span<double> values) {
  for (double& value : values) value = rounded_to_bf16(value);
}

/// Moves the values of a pass at random, by as much as f32 may: a sum of n rounded terms by up to sqrt(n) u of its size
/// (u = 2^-24), as harness/tolerance.h has it. Where a value then rounds to the other bf16, later layers carry that on;
/// no bound says how far, but passes with noise show it (Monte Carlo arithmetic, Parker 1997).
class ArithmeticNoise {
 public:
  /// `seed` 0: nothing moves.
  explicit ArithmeticNoise(std::uint64_t seed) : seed_(seed), state_(seed) {}

  bool is_on() const { return seed_ != 0; }

  /// Each value by up to sqrt(n_terms) u of itself.
  void move(std::span<double> values, std::int64_t n_terms) {
    if (!is_on()) return;
    const double size = unit(n_terms);
    for (double& value : values) value *= 1.0 + size * draw();
  }
  /// y [n_rows, n_out] = x W^T: element (r, j) by up to sqrt(n_in) u |x_r| |w_j|. x [n_rows, n_in], w [n_out, n_in].
  void move_product(std::span<const double> x, std::span<const float> w, std::int64_t n_in, std::span<double> y);
  /// Kernels round a row's weights relative to its largest score so far, or to the sum of its weights: by a factor
  /// within [1, 2) of one another. Row and head pick it; 1 when nothing moves.
  double weight_factor(std::int64_t layer, std::int64_t row, std::int64_t head) const;
  /// Some kernels divide by the sum of the rounded weights: every second seed does.
  bool divides_by_rounded_sum() const { return seed_ % 2 == 1; }

 private:
  static double unit(std::int64_t n_terms) { return 0x1p-24 * std::sqrt(static_cast<double>(n_terms)); }
  double draw() { return static_cast<double>(next_random(state_) >> 11) * 0x1p-52 - 1.0; }  // in [-1, 1)

  std::uint64_t seed_;
  std::uint64_t state_;
};

}  // namespace kvlab
