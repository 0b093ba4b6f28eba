// SiLU and GELU are both x * sigmoid(something): 0.5 (1 + tanh(u)) = sigmoid(2 u). Element by element, so that a value
// never depends on its neighbours or on where a vector begins.
#include "kernels/cpu/activations.h"

#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activations.cpp"
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

/// x * sigmoid(u). exp(-u) is cut at e^88, the last before infinity; NaN passes through x.
HWY_INLINE Vector gate(Vector x, Vector u) {
  const F32 d;
  const Vector one = hn::Set(d, 1.0F);
  return hn::Div(x, hn::Add(one, hn::Exp(d, hn::Min(hn::Neg(u), hn::Set(d, 88.0F)))));
}

HWY_INLINE Vector gelu(Vector x) {
  const F32 d;
  const Vector inner = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715F), hn::Mul(x, x)), x, x);
  return gate(x, hn::Mul(hn::Set(d, 1.5957691216F), inner));  // 2 sqrt(2 / pi)
}

void silu_multiply_span(const float* gates, const float* ups, std::int64_t n_values, float* out) {
  const F32 d;
  std::int64_t i = 0;
  for (; i + kLanes <= n_values; i += kLanes) {
    const Vector x = hn::LoadU(d, gates + i);
    hn::StoreU(hn::Mul(gate(x, x), hn::LoadU(d, ups + i)), d, out + i);
  }
  if (i == n_values) return;
  HWY_ALIGN float rest[2 * kLanes] = {};
  std::copy(gates + i, gates + n_values, rest);
  std::copy(ups + i, ups + n_values, rest + kLanes);
  const Vector x = hn::Load(d, rest);
  hn::Store(hn::Mul(gate(x, x), hn::Load(d, rest + kLanes)), d, rest);
  std::copy_n(rest, n_values - i, out + i);
}

void gelu_span(float* x, std::int64_t n_values) {
  const F32 d;
  std::int64_t i = 0;
  for (; i + kLanes <= n_values; i += kLanes) hn::StoreU(gelu(hn::LoadU(d, x + i)), d, x + i);
  if (i == n_values) return;
  HWY_ALIGN float rest[kLanes] = {};
  std::copy(x + i, x + n_values, rest);
  hn::Store(gelu(hn::Load(d, rest)), d, rest);
  std::copy_n(rest, n_values - i, x + i);
}

}  // namespace kvlab::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlab::cpu {
namespace {

HWY_EXPORT(silu_multiply_span);
HWY_EXPORT(gelu_span);

constexpr std::int64_t kExpCost = 16;  // an exponential is worth so many multiply-adds
constexpr std::int64_t kSpan = 4096;   // values a thread takes at a time

}  // namespace

int silu_multiply_lanes(std::int64_t n_rows, std::int64_t width, int n_threads) {
  return threads_for(n_rows * width * kExpCost, n_rows, n_threads);
}

void silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out, Share share) {
  const ItemRange rows = part_of(n_rows, share);
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    const float* row = gate_up + r * 2 * width;
    HWY_DYNAMIC_DISPATCH(silu_multiply_span)(row, row + width, width, out + r * width);
  }
}

int gelu_lanes(std::int64_t n_values, int n_threads) {
  return threads_for(n_values * kExpCost, n_values / kSpan, n_threads);
}

void gelu(float* x, std::int64_t n_values, Share share) {
  const ItemRange spans = part_of((n_values + kSpan - 1) / kSpan, share);
  const std::int64_t last = std::min(spans.last * kSpan, n_values);
  for (std::int64_t i = spans.first * kSpan; i < last; i += kSpan) {
    HWY_DYNAMIC_DISPATCH(gelu_span)(x + i, std::min(kSpan, n_values - i));
  }
}

}  // namespace kvlab::cpu
#endif
