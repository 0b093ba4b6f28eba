// The inner loops of attention on rows of K and V, vectorised and serial; both attentions are built from them.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace kvlab::cpu {

/// Rows of K or V that need not be neighbours: row i starts `offsets[i]` elements after `base`.
struct ScatteredRows {
  const void* base = nullptr;  // elements of dtype
  DType dtype = DType::f32;
  const std::int64_t* offsets = nullptr;  // [n]
  std::int64_t n = 0;
};

/// scores[i] = q . keys[i] * scale; q [head_dim], scores [n]. Returns the number of dot products executed.
std::int64_t dot_keys(const float* q, const ScatteredRows& keys, std::int64_t head_dim, float scale, float* scores);

/// The largest of values [n] and `start`.
float largest(const float* values, std::int64_t n, float start);

/// values[i] = exp(values[i] - shift), in place; returns their sum. NaN stays NaN.
float exponentiate(float* values, std::int64_t n, float shift);

/// values[i] *= factor; values [n].
void multiply(float* values, std::int64_t n, float factor);

/// out += sum of weights[i] * rows[i]; weights [n], out [head_dim]. In ascending order of i, but for components behind
/// the last whole vector, whose even and odd rows are summed apart and then added.
void add_weighted(const float* weights, const ScatteredRows& rows, std::int64_t head_dim, float* out);

}  // namespace kvlab::cpu
