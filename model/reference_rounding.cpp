#include "model/reference_rounding.h"

namespace kvlab {
namespace {

/// Lengths of the rows of a matrix whose rows have `width` elements.
template <typename T>
std::vector<double> row_lengths(std::span<const T> matrix, std::int64_t width) {
  std::vector<double> lengths;
  for (auto row = matrix.begin(); row != matrix.end(); row += width) {
    double squares = 0.0;
    for (auto value = row; value != row + width; ++value) squares += static_cast<double>(*value) * *value;
    lengths.push_back(std::sqrt(squares));
  }
  return lengths;
}

}  // namespace

void ArithmeticNoise::move_product(std::span<const double> x, std::span<const float> w, std::int64_t n_in,
                                   std::span<double> y) {
  if (!is_on()) return;
  const std::vector<double> of_w = row_lengths(w, n_in);
  auto moved = y.begin();
  for (const double of_x : row_lengths(x, n_in)) {
    for (const double length : of_w) *moved++ += unit(n_in) * of_x * length * draw();
  }
}

double ArithmeticNoise::weight_factor(std::int64_t layer, std::int64_t row, std::int64_t head) const {
  if (!is_on()) return 1.0;
  std::uint64_t place = scattered(seed_);
  for (const std::int64_t number : {layer, row, head}) place = scattered(place ^ static_cast<std::uint64_t>(number));
  return std::exp2(static_cast<double>(place >> 11) * 0x1p-53);
}

}  // namespace kvlab
