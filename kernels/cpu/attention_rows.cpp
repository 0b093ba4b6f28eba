// Highway loops over scattered K and V rows. Never reads past a row's last component: the slot behind it may be unused.
#include "kernels/cpu/attention_rows.h"

#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// contrib/math comes after highway.h
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace kvlab::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vector = hn::Vec<F32>;
constexpr std::int64_t kLanes = hn::MaxLanes(F32());
constexpr int kKeysAtOnce = 8;     // independent sums, enough to hide the latency of a multiply-add
constexpr int kColumnsAtOnce = 8;  // vectors of the output held in registers while rows go by
constexpr int kRestAtOnce = 2;     // components of the output behind the last whole vector

HWY_INLINE Vector load(const float* values) { return hn::LoadU(F32(), values); }

HWY_INLINE Vector load(const Bf16* values) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(values));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

HWY_INLINE float widen(float value) { return value; }
HWY_INLINE float widen(Bf16 value) { return bf16_to_float(value); }

/// kKeys dot products side by side. The order of additions is the same for any kKeys.
template <int kKeys, class T>
HWY_INLINE void dot_some(const float* q, const T* base, const std::int64_t* offsets, std::int64_t head_dim, float scale,
                         float* scores) {
  const F32 d;
  Vector sums[kKeys];
  for (int j = 0; j < kKeys; ++j) sums[j] = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kLanes <= head_dim; i += kLanes) {
    const Vector query = hn::LoadU(d, q + i);
    for (int j = 0; j < kKeys; ++j) sums[j] = hn::MulAdd(query, load(base + offsets[j] + i), sums[j]);
  }
  float totals[kKeys] = {};
  if (i > 0) {  // sums of a row shorter than a vector would cost more than its products
    for (int j = 0; j < kKeys; ++j) totals[j] = hn::GetLane(hn::SumOfLanes(d, sums[j]));
  }
  for (; i < head_dim; ++i) {
    for (int j = 0; j < kKeys; ++j) totals[j] += q[i] * widen(base[offsets[j] + i]);
  }
  for (int j = 0; j < kKeys; ++j) scores[j] = totals[j] * scale;
}

template <class T>
std::int64_t dot_keys_of(const float* q, const T* base, const ScatteredRows& keys, std::int64_t head_dim, float scale,
                         float* scores) {
  std::int64_t done = 0;
  for (; done + kKeysAtOnce <= keys.n; done += kKeysAtOnce) {
    dot_some<kKeysAtOnce>(q, base, keys.offsets + done, head_dim, scale, scores + done);
  }
  for (; done < keys.n; ++done) dot_some<1>(q, base, keys.offsets + done, head_dim, scale, scores + done);
  return done;
}

std::int64_t dot_keys(const float* q, const ScatteredRows& keys, std::int64_t head_dim, float scale, float* scores) {
  if (keys.dtype == DType::f32) {
    return dot_keys_of(q, static_cast<const float*>(keys.base), keys, head_dim, scale, scores);
  }
  return dot_keys_of(q, static_cast<const Bf16*>(keys.base), keys, head_dim, scale, scores);
}

float largest(const float* values, std::int64_t n, float start) {
  const F32 d;
  Vector best = hn::Set(d, start);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) best = hn::Max(best, hn::LoadU(d, values + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < n; ++i) result = std::max(result, values[i]);
  return result;
}

/// exp(x) for x <= 0; Highway's turns NaN into 0, which would hide it.
HWY_INLINE Vector exp_or_nan(Vector x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(F32(), x)); }

float exponentiate(float* values, std::int64_t n, float shift) {
  const F32 d;
  const Vector minus_shift = hn::Set(d, -shift);
  Vector sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector value = exp_or_nan(hn::Add(hn::LoadU(d, values + i), minus_shift));
    hn::StoreU(value, d, values + i);
    sum = hn::Add(sum, value);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  if (i == n) return total;
  HWY_ALIGN float rest[kLanes] = {};
  std::copy(values + i, values + n, rest);
  hn::Store(exp_or_nan(hn::Add(hn::Load(d, rest), minus_shift)), d, rest);
  std::copy_n(rest, n - i, values + i);
  for (; i < n; ++i) total += values[i];
  return total;
}

void multiply(float* values, std::int64_t n, float factor) {
  const F32 d;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), hn::Set(d, factor)), d, values + i);
  }
  for (; i < n; ++i) values[i] *= factor;
}

/// kColumns vectors of the output, all rows.
template <int kColumns, class T>
HWY_INLINE void add_columns(const float* weights, const T* base, const ScatteredRows& rows, float* out) {
  const F32 d;
  Vector sums[kColumns];
  for (int c = 0; c < kColumns; ++c) sums[c] = hn::LoadU(d, out + c * kLanes);
  for (std::int64_t j = 0; j < rows.n; ++j) {
    const Vector weight = hn::Set(d, weights[j]);
    const T* row = base + rows.offsets[j];
    for (int c = 0; c < kColumns; ++c) sums[c] = hn::MulAdd(weight, load(row + c * kLanes), sums[c]);
  }
  for (int c = 0; c < kColumns; ++c) hn::StoreU(sums[c], d, out + c * kLanes);
}

/// kColumns components behind the last whole vector, rows of even and odd index apart: so few sums would wait for each
/// other. Sums are local, since `out` might overlap the rows for all that a compiler knows.
template <int kColumns, class T>
HWY_INLINE void add_rest(const float* weights, const T* base, const ScatteredRows& rows, float* out) {
  float even[kColumns];
  float odd[kColumns] = {};
  for (int c = 0; c < kColumns; ++c) even[c] = out[c];
  std::int64_t j = 0;
  for (; j + 2 <= rows.n; j += 2) {
    for (int c = 0; c < kColumns; ++c) even[c] += weights[j] * widen(base[rows.offsets[j] + c]);
    for (int c = 0; c < kColumns; ++c) odd[c] += weights[j + 1] * widen(base[rows.offsets[j + 1] + c]);
  }
  if (j < rows.n) {
    for (int c = 0; c < kColumns; ++c) even[c] += weights[j] * widen(base[rows.offsets[j] + c]);
  }
  for (int c = 0; c < kColumns; ++c) out[c] = even[c] + odd[c];
}

template <class T>
void add_weighted_of(const float* weights, const T* base, const ScatteredRows& rows, std::int64_t head_dim,
                     float* out) {
  std::int64_t i = 0;
  for (; i + kColumnsAtOnce * kLanes <= head_dim; i += kColumnsAtOnce * kLanes) {
    add_columns<kColumnsAtOnce>(weights, base + i, rows, out + i);
  }
  for (; i + kLanes <= head_dim; i += kLanes) add_columns<1>(weights, base + i, rows, out + i);
  for (; i + kRestAtOnce <= head_dim; i += kRestAtOnce) add_rest<kRestAtOnce>(weights, base + i, rows, out + i);
  for (; i < head_dim; ++i) add_rest<1>(weights, base + i, rows, out + i);
}

void add_weighted(const float* weights, const ScatteredRows& rows, std::int64_t head_dim, float* out) {
  if (rows.dtype == DType::f32) {
    add_weighted_of(weights, static_cast<const float*>(rows.base), rows, head_dim, out);
  } else {
    add_weighted_of(weights, static_cast<const Bf16*>(rows.base), rows, head_dim, out);
  }
}

}  // namespace kvlab::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlab::cpu {
namespace {

HWY_EXPORT(dot_keys);
HWY_EXPORT(largest);
HWY_EXPORT(exponentiate);
HWY_EXPORT(multiply);
HWY_EXPORT(add_weighted);

}  // namespace

std::int64_t dot_keys(const float* q, const ScatteredRows& keys, std::int64_t head_dim, float scale, float* scores) {
  return HWY_DYNAMIC_DISPATCH(dot_keys)(q, keys, head_dim, scale, scores);
}

float largest(const float* values, std::int64_t n, float start) {
  return HWY_DYNAMIC_DISPATCH(largest)(values, n, start);
}

float exponentiate(float* values, std::int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(exponentiate)(values, n, shift);
}

void multiply(float* values, std::int64_t n, float factor) { HWY_DYNAMIC_DISPATCH(multiply)(values, n, factor); }

void add_weighted(const float* weights, const ScatteredRows& rows, std::int64_t head_dim, float* out) {
  HWY_DYNAMIC_DISPATCH(add_weighted)(weights, rows, head_dim, out);
}

}  // namespace kvlab::cpu
#endif
