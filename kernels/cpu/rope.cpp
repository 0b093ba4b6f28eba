// Rotary positions: one pass over the rows, angles from a table.
#include "kernels/cpu/rows.h"

namespace kvlab::cpu {

void rope(Rows<float> x, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim,
          const std::int32_t* positions, const float* cos_sin, Share share) {
  const std::int64_t half = head_dim / 2;
  const ItemRange rows = part_of(n_rows, share);
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    const float* cosines = cos_sin + positions[r] * head_dim;
    const float* sines = cosines + half;
    for (std::int64_t h = 0; h < n_heads; ++h) {
      float* first = x.data + r * x.stride + h * head_dim;
      float* second = first + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float a = first[i];
        const float b = second[i];
        first[i] = a * cosines[i] - b * sines[i];
        second[i] = b * cosines[i] + a * sines[i];
      }
    }
  }
}

}  // namespace kvlab::cpu
