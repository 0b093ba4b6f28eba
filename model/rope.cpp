#include "model/rope.h"

#include <cmath>
#include <numbers>

namespace kvlab {
namespace {

/// Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those between blended.
double llama3_scaled(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(scaling.original_context);
  if (wavelength > original / scaling.low_freq_factor) return frequency / scaling.factor;
  if (wavelength < original / scaling.high_freq_factor) return frequency;
  const double share =
      (original / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - share) * frequency / scaling.factor + share * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const ModelConfig& config) {
  const std::int64_t pairs = config.head_dim / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(pairs));
  for (std::int64_t i = 0; i < pairs; ++i) {
    double& frequency = frequencies[static_cast<std::size_t>(i)];
    frequency = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    const RopeScaling& scaling = config.rope_scaling;
    if (!scaling.frequency_divisors.empty()) frequency /= scaling.frequency_divisors[static_cast<std::size_t>(i)];
    if (scaling.kind == RopeScalingKind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeScalingKind::llama3) frequency = llama3_scaled(frequency, scaling);
  }
  return frequencies;
}

std::vector<float> rope_table(const ModelConfig& config, std::int64_t begin, std::int64_t end) {
  const std::vector<double> frequencies = rope_frequencies(config);
  std::vector<float> table;
  table.reserve(static_cast<std::size_t>((end - begin) * config.head_dim));
  for (std::int64_t pos = begin; pos < end; ++pos) {
    for (const double f : frequencies) table.push_back(static_cast<float>(std::cos(static_cast<double>(pos) * f)));
    for (const double f : frequencies) table.push_back(static_cast<float>(std::sin(static_cast<double>(pos) * f)));
  }
  return table;
}

}  // namespace kvlab
