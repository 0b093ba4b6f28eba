// The body of GEMV: a block takes a few rows of the weight and shares out their columns among its threads, so that each
// element of x is read by one thread of the block and serves all of the block's rows. gemv_plan.h says how it is cut.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemv_plan.h"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp_ops.cuh"

namespace kvlab::cuda {

template <typename T>
struct GemvParams {
  Global<const T> weight;  // [n_out, n_in]
  std::int32_t n_out;
  std::int32_t n_in;
  Global<const float> x;  // [n_rows, n_in], rows x_stride apart
  std::int64_t x_stride;
  std::int32_t n_rows;
  Global<float> y;  // [n_rows, n_out or n_out / 2], rows y_stride apart
  std::int64_t y_stride;
  Global<const float> bias;         // [n_out] or null
  Global<const float> norm_weight;  // [n_in] or null
  float norm_eps;
  bool accumulate;
  bool gate_up;
};

template <int m>
struct GemvStorage {
  static constexpr int kSums = kGemvRows * m;
  static constexpr int kMaxWarps = kGemvMaxBlock / kWarpSize;
  SharedArray<float, kMaxWarps * kSums> sums;  // [n_warps, kGemvRows, m]
  SharedArray<float, kMaxWarps * m> squares;   // [n_warps, m]
};

/// The row of the weight that is the block's r-th, or n_out where there is none. With gate_up the first half of a
/// block's rows are gates and the second half the ups that belong to them.
template <typename T>
KVLAB_DEVICE std::int32_t gemv_row(const GemvParams<T>& params, int r) {
  if (!params.gate_up) {
    const std::int32_t row = block_x() * kGemvRows + r;
    return row < params.n_out ? row : params.n_out;
  }
  constexpr int kPairs = kGemvRows / 2;
  const std::int32_t width = params.n_out / 2;
  const std::int32_t pair = block_x() * kPairs + r % kPairs;
  return pair < width ? pair + (r < kPairs ? 0 : width) : params.n_out;
}

/// Where a thread stands in a row at a step.
template <int n>
KVLAB_DEVICE std::int32_t gemv_column(int step) {
  return (step * block_size_x() + thread_x()) * n;
}

/// Columns of x that are read at once: 16 bytes of f32, or one value.
template <int n>
constexpr int kGemvXValues = n < 4 ? n : 4;

/// Neighbouring values of one row of x; zeros past the edges.
template <typename T, int n>
KVLAB_DEVICE Vector<float, kGemvXValues<n>> load_gemv_x(const GemvParams<T>& params, int row, std::int32_t column) {
  using In = Vector<float, kGemvXValues<n>>;
  const Global<const float> from = params.x + (row * params.x_stride + column);
  return load_global_if(column < params.n_in && row < params.n_rows, from.template as<In>(), In{});
}

/// The same of all rows as the product takes them: normalised, and rounded to T.
template <typename T, int m, int n>
KVLAB_DEVICE void load_gemv_inputs(const GemvParams<T>& params, std::int32_t column, const float (&scale)[m],
                                   float (&x)[m][kGemvXValues<n>]) {
  using In = Vector<float, kGemvXValues<n>>;
  const bool normalises = static_cast<bool>(params.norm_weight);
  In factors{};
  if (normalises) {
    factors = load_global_constant_if(column < params.n_in, (params.norm_weight + column).template as<In>(), In{});
  }
  KVLAB_UNROLL
  for (int row = 0; row < m; ++row) {
    const In values = load_gemv_x<T, n>(params, row, column);
    KVLAB_UNROLL
    for (int e = 0; e < kGemvXValues<n>; ++e) {
      const float value = normalises ? values[e] * scale[row] * factors[e] : values[e];
      x[row][e] = widened(rounded_to<T>(value));
    }
  }
}

/// scale[row] = 1 / rms of each row of x, for every thread of the block, which reads all of x for it.
template <typename T, int m, int n>
KVLAB_DEVICE void find_gemv_scales(const GemvParams<T>& params, int n_steps, GemvStorage<m>& shared,
                                   float (&scale)[m]) {
  KVLAB_NO_UNROLL
  for (int step = 0; step < n_steps; ++step) {
    KVLAB_UNROLL
    for (int part = 0; part < n; part += kGemvXValues<n>) {
      KVLAB_UNROLL
      for (int row = 0; row < m; ++row) {
        const auto values = load_gemv_x<T, n>(params, row, gemv_column<n>(step) + part);
        KVLAB_UNROLL
        for (int e = 0; e < kGemvXValues<n>; ++e) scale[row] += values[e] * values[e];
      }
    }
  }
  group_sum<kWarpSize>(scale);
  KVLAB_UNROLL
  for (int row = 0; row < m; ++row) {
    store_shared_if(lane_id() == row, shared.squares.at(warp_id() * m + row), scale[row]);
  }
  block_barrier();
  KVLAB_UNROLL
  for (int row = 0; row < m; ++row) {
    float squares = 0.0F;
    KVLAB_NO_UNROLL
    for (int warp = 0; warp < block_size_x() / kWarpSize; ++warp) {
      squares += load_shared(shared.squares.at(warp * m + row));
    }
    scale[row] = 1.0F / std::sqrt(squares / static_cast<float>(params.n_in) + params.norm_eps);
  }
}

/// The block's rows of the weight, from a thread's place in them on.
template <typename T>
struct GemvRows {
  Global<const T> from[kGemvRows];
  bool is_there[kGemvRows];
};

template <typename T, int n>
KVLAB_DEVICE GemvRows<T> gemv_rows(const GemvParams<T>& params) {
  GemvRows<T> rows;
  KVLAB_UNROLL
  for (int r = 0; r < kGemvRows; ++r) {
    const std::int32_t row = gemv_row(params, r);
    rows.from[r] = params.weight + (static_cast<std::int64_t>(row) * params.n_in + thread_x() * n);
    rows.is_there[r] = row < params.n_out;
  }
  return rows;
}

/// What a thread holds of a step's weights.
template <typename T, int n>
struct GemvWeights {
  Vector<T, n> of_row[kGemvRows];
};

/// Starts a load of the block's r-th row; zeros past the edges.
template <typename T, int n>
KVLAB_DEVICE void load_gemv_weights(const GemvRows<T>& rows, std::int32_t n_in, int r, int step,
                                    GemvWeights<T, n>& weights) {
  using Values = Vector<T, n>;
  const Global<const T> from = rows.from[r] + step * block_size_x() * n;
  weights.of_row[r] =
      load_global_streamed_if(rows.is_there[r] && gemv_column<n>(step) < n_in, from.template as<Values>(), Values{});
}

/// Adds a step's products to the sums, and starts the loads of the step that takes its place.
template <typename T, int m, int n>
KVLAB_DEVICE void add_gemv_step(const GemvParams<T>& params, const GemvRows<T>& rows, int step, const float (&scale)[m],
                                GemvWeights<T, n>& weights, float (&sums)[GemvStorage<m>::kSums]) {
  constexpr int kValues = kGemvXValues<n>;
  KVLAB_UNROLL
  for (int part = 0; part < n; part += kValues) {
    float x[m][kValues];
    load_gemv_inputs<T, m, n>(params, gemv_column<n>(step) + part, scale, x);
    KVLAB_UNROLL
    for (int r = 0; r < kGemvRows; ++r) {
      KVLAB_UNROLL
      for (int e = 0; e < kValues; ++e) {
        const float weight = widened(weights.of_row[r][part + e]);
        KVLAB_UNROLL
        for (int row = 0; row < m; ++row) sums[r * m + row] += weight * x[row][e];
      }
      if (part + kValues == n) load_gemv_weights<T, n>(rows, params.n_in, r, step + kGemvStages, weights);
    }
  }
}

/// A sum over the block and the bias: row r of the block's, row x_row of x.
template <typename T, int m>
KVLAB_DEVICE float gemv_product(const GemvParams<T>& params, GemvStorage<m>& shared, int r, int x_row) {
  float sum = 0.0F;
  KVLAB_NO_UNROLL
  for (int warp = 0; warp < block_size_x() / kWarpSize; ++warp) {
    sum += load_shared(shared.sums.at((warp * kGemvRows + r) * m + x_row));
  }
  return params.bias ? sum + load_global_constant(params.bias + gemv_row(params, r)) : sum;
}

/// Puts the warps' sums together and writes the block's part of y: a thread an element.
template <typename T, int m>
KVLAB_DEVICE void write_gemv_rows(const GemvParams<T>& params, GemvStorage<m>& shared,
                                  float (&sums)[GemvStorage<m>::kSums]) {
  constexpr int kSums = GemvStorage<m>::kSums;
  static_assert(kSums <= kWarpSize, "one warp writes the block's part of y");
  group_sum<kWarpSize>(sums);
  KVLAB_UNROLL
  for (int i = 0; i < kSums; ++i) {
    store_shared_if(lane_id() == i, shared.sums.at(warp_id() * kSums + i), sums[i]);
  }
  block_barrier();
  const int r = thread_x() / m;
  const int x_row = thread_x() % m;
  if (r >= (params.gate_up ? kGemvRows / 2 : kGemvRows) || x_row >= params.n_rows) return;
  const std::int32_t row = gemv_row(params, r);
  if (row == params.n_out) return;
  float value = gemv_product(params, shared, r, x_row);
  if (params.gate_up) {
    value = value / (1.0F + std::exp(-value)) * gemv_product(params, shared, r + kGemvRows / 2, x_row);
  }
  const Global<float> to = params.y + (x_row * params.y_stride + row);
  store_global(to, params.accumulate ? load_global(to) + value : value);
}

/// y = x W^T with the prologue and epilogue that GemvCall names; up to m rows of x, n weights a load.
/// Grid: plan_gemv's blocks; block: 32 to kGemvMaxBlock threads; shared: GemvStorage<m>.
/// Thread i takes loads i, i + block, … of each of the block's rows. Reads the weight once, x once a block (with a norm
/// twice, and norm_weight once), writes y once. The first loads of weights are under way before it waits for the launch
/// before.
template <typename T, int m, int n>
KVLAB_KERNEL void KVLAB_LAUNCH_BOUNDS(kGemvMaxBlock, m < 4 ? 4 : 3) gemv_kernel(GemvParams<T> params) {
  auto& shared = shared_storage<GemvStorage<m>>();
  const int n_steps = (params.n_in + block_size_x() * n - 1) / (block_size_x() * n);
  const GemvRows<T> rows = gemv_rows<T, n>(params);
  GemvWeights<T, n> weights[kGemvStages];
  KVLAB_UNROLL
  for (int stage = 0; stage < kGemvStages; ++stage) {
    KVLAB_UNROLL
    for (int r = 0; r < kGemvRows; ++r) load_gemv_weights<T, n>(rows, params.n_in, r, stage, weights[stage]);
  }
  wait_for_previous_launch();
  float scale[m] = {};
  if (params.norm_weight) find_gemv_scales<T, m, n>(params, n_steps, shared, scale);
  float sums[GemvStorage<m>::kSums] = {};  // [kGemvRows, m]
  KVLAB_NO_UNROLL
  for (int first = 0; first < n_steps; first += kGemvStages) {
    KVLAB_UNROLL
    for (int stage = 0; stage < kGemvStages; ++stage) {
      add_gemv_step<T, m, n>(params, rows, first + stage, scale, weights[stage], sums);
    }
  }
  write_gemv_rows<T, m>(params, shared, sums);
}

}  // namespace kvlab::cuda
