// The arithmetic of sampling, which host and device share to the last bit: weights are integers, so that no sum depends
// on its order, and come from additions and products that both round alike. Who walks the candidates is not its
// business.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/random.h"
#include "kernels/unfused.h"

namespace kvlab {

struct SamplingSettings {
  double temperature = 0.0;  // 0: greedy, ties to the lowest id
  std::int64_t top_k = 0;    // 0: off
  double top_p = 1.0;        // 1: off; the smallest set whose probability reaches top_p (at least one id)

  bool operator==(const SamplingSettings&) const = default;
};

/// What a row gets in place of an id when one of its logits is NaN or +inf, or none is finite.
constexpr std::int32_t kNoChoice = -1;

/// How a row is chosen from. Whoever asks for the choice keeps the state, so that a draw can be taken back.
struct RowSampling {
  SamplingSettings settings;
  std::uint64_t state = 0;  // the seed, moved on by each draw so far

  /// To the next choice; a greedy one draws nothing.
  void advance() {
    if (settings.temperature > 0.0) next_random(state);
  }
};

/// The weight of the highest logit. Up to 2^23 of them add up without overflow.
constexpr std::uint64_t kWholeWeight = std::uint64_t{1} << 40;

/// exp((logit - highest) / temperature) in units of 1 / kWholeWeight; what is below one unit is 0 and never drawn.
/// logit <= highest, both finite; temperature > 0.
KVLAB_HOST_DEVICE inline std::uint64_t sampling_weight(float logit, float highest, double temperature) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2 = 0.6931471805599453;
  const double nats = (static_cast<double>(logit) - static_cast<double>(highest)) / temperature;
  if (!(nats > -29.0)) return 0;  // exp(-29) < 2^-41
  // nats = (n + r) ln 2 with |r| <= 1/2, and exp(r ln 2) as its series, whose first term left out is below 2^-47.
  const double n = std::floor(multiply_add_unfused(nats, kLog2E, 0.5));
  const double x = multiply_add_unfused(nats, kLog2E, -n) * kLn2;
  double sum = 1.0 / 39916800;
  sum = multiply_add_unfused(sum, x, 1.0 / 3628800);
  sum = multiply_add_unfused(sum, x, 1.0 / 362880);
  sum = multiply_add_unfused(sum, x, 1.0 / 40320);
  sum = multiply_add_unfused(sum, x, 1.0 / 5040);
  sum = multiply_add_unfused(sum, x, 1.0 / 720);
  sum = multiply_add_unfused(sum, x, 1.0 / 120);
  sum = multiply_add_unfused(sum, x, 1.0 / 24);
  sum = multiply_add_unfused(sum, x, 1.0 / 6);
  sum = multiply_add_unfused(sum, x, 0.5);
  sum = multiply_add_unfused(sum, x, 1.0);
  sum = multiply_add_unfused(sum, x, 1.0);
  return static_cast<std::uint64_t>(sum * static_cast<double>(kWholeWeight)) >> static_cast<int>(-n);
}

/// The weight that a set must reach to hold top_p of `total`: from 1 to total.
KVLAB_HOST_DEVICE inline std::uint64_t wanted_weight(double top_p, std::uint64_t total) {
  // Equal shares that add up to top_p on paper must reach it after rounding too.
  constexpr double kRoundingAllowance = 1.0 - 1e-12;
  const double wanted = std::ceil(top_p * static_cast<double>(total) * kRoundingAllowance);
  if (!(wanted > 1.0)) return 1;
  const auto whole = static_cast<std::uint64_t>(wanted);
  return whole < total ? whole : total;
}

/// floor(draw * total / 2^64): a number below `total`, evenly drawn where `draw` is.
KVLAB_HOST_DEVICE constexpr std::uint64_t drawn_below(std::uint64_t total, std::uint64_t draw) {
  const std::uint64_t low = (total & 0xffffffffU) * (draw & 0xffffffffU);
  const std::uint64_t mixed = (total >> 32) * (draw & 0xffffffffU) + (low >> 32);
  const std::uint64_t other = (total & 0xffffffffU) * (draw >> 32) + (mixed & 0xffffffffU);
  return (total >> 32) * (draw >> 32) + (mixed >> 32) + (other >> 32);
}

}  // namespace kvlab
