// The float64 twins of kernels/operations.h, straight from the formulas: what every other implementation is held to.
// Dense row-major arrays, weights as the f32 numbers a checkpoint holds, all arithmetic in double. A row's result never
// depends on the number of rows or threads, bit for bit (SPEC S24).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace kvlab::reference {

/// out[i, :] = table[ids[i], :]. table [n_rows, width], out [n_ids, width].
void embed(const float* table, std::int64_t width, std::span<const std::int32_t> ids, double* out);

/// y = x W^T (+ bias). x [n_rows, n_in], w [n_out, n_in], bias [n_out] or null, y [n_rows, n_out]. Each element is one
/// sum over n_in in ascending order.
void matmul(const double* x, std::int64_t n_rows, const float* w, std::int64_t n_out, std::int64_t n_in,
            const float* bias, double* y);

/// y += x, n_values each.
void add(const double* x, std::int64_t n_values, double* y);

/// y = x / sqrt(mean(x^2) + eps) * weight, row by row. In place is allowed.
void rms_norm(const double* x, std::int64_t n_rows, std::int64_t width, const float* weight, double eps, double* y);
/// y = (x - mean) / sqrt(var + eps) * weight + bias; population variance. In place is allowed.
void layer_norm(const double* x, std::int64_t n_rows, std::int64_t width, const float* weight, const float* bias,
                double eps, double* y);

/// Rotates pairs (i, i + head_dim/2) of every head by positions[row] * frequencies[i] radians, in place.
/// x [n_rows, n_heads * head_dim], positions [n_rows], frequencies [head_dim/2].
void rope(double* x, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim, const std::int32_t* positions,
          const double* frequencies);

/// One sequence. Query i stands at position kv_len - n_queries + i.
struct AttentionShape {
  std::int64_t n_queries = 0;
  std::int64_t kv_len = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // 0: none; otherwise position i sees keys i - window < j <= i
  double scale = 1.0;
};

/// softmax(q k^T * scale, causally masked) v. q, out [n_queries, n_heads * head_dim]; k, v [kv_len, n_kv_heads *
/// head_dim]; head h reads KV head h / (n_heads / n_kv_heads). A row that sees no key gives zeros. `adjust(row, head,
/// weights)` may change the softmax's weights of a row before they meet V; several threads call it.
using AdjustWeights = std::function<void(std::int64_t, std::int64_t, std::span<double>)>;
void attention(const AttentionShape& shape, const double* q, const double* k, const double* v, double* out,
               const AdjustWeights& adjust = {});

/// out[:, j] = silu(gate[:, j]) * up[:, j]; silu(x) = x / (1 + exp(-x)). n_values each; out may be gate or up.
void silu_multiply(const double* gate, const double* up, std::int64_t n_values, double* out);
/// x = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) in place.
void gelu(double* x, std::int64_t n_values);

}  // namespace kvlab::reference
