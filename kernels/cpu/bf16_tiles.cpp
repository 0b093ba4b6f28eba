// bf16 tile products with Highway. One row is a walk over the weights (bound by memory); more rows share a tile,
// widened once into scratch when there are many. All paths add over n_in in ascending order, so a row's bits never
// change.
#include "kernels/cpu/bf16_tiles.h"

#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bf16_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace kvlab::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, kTileWidth>;
using Vector = hn::Vec<F32>;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32()));
constexpr int kVectors = static_cast<int>(kTileWidth) / kLanes;       // vectors a tile is wide
constexpr int kMaxRows = kVectors <= 1 ? 12 : kVectors == 2 ? 6 : 3;  // twelve sums fill the registers

constexpr std::int64_t kInBlock = 256;  // tile rows widened at a time: 16 KiB of f32, half of L1
constexpr std::int64_t kRowBlock = 96;  // activation rows per pass over the tiles: 96 KiB of x a block, in L2

HWY_INLINE Vector load(const float* values) { return hn::LoadU(F32(), values); }

HWY_INLINE Vector load(const Bf16* values) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(values));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

/// y += x W^T for kRows rows and kTiles tiles. W [kTiles, n_in, kTileWidth] of T, tiles tile_stride apart.
template <int kRows, int kTiles, class T>
void multiply_block(const float* x, std::int64_t x_stride, const T* tiles, std::int64_t tile_stride, std::int64_t n_in,
                    float* y, std::int64_t y_stride) {
  Vector sums[kRows][kTiles * kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kTiles * kVectors; ++v) sums[r][v] = load(y + r * y_stride + v * kLanes);
  }
  for (std::int64_t k = 0; k < n_in; ++k) {
    Vector weights[kTiles * kVectors];
    for (int v = 0; v < kTiles * kVectors; ++v) {
      weights[v] = load(tiles + v / kVectors * tile_stride + k * kTileWidth + v % kVectors * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vector value = hn::Set(F32(), x[r * x_stride + k]);
      for (int v = 0; v < kTiles * kVectors; ++v) sums[r][v] = hn::MulAdd(value, weights[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kTiles * kVectors; ++v) hn::StoreU(sums[r][v], F32(), y + r * y_stride + v * kLanes);
  }
}

/// multiply_block for 1 <= n_rows <= kRows.
template <int kRows, class T>
void multiply_rows(std::int64_t n_rows, const float* x, std::int64_t x_stride, const T* tile, std::int64_t n_in,
                   float* y, std::int64_t y_stride) {
  if constexpr (kRows > 1) {
    if (n_rows < kRows) return multiply_rows<kRows - 1>(n_rows, x, x_stride, tile, n_in, y, y_stride);
  }
  multiply_block<kRows, 1>(x, x_stride, tile, 0, n_in, y, y_stride);
}

/// The same for a tile of which only `width` features exist: y has no room for whole vectors.
template <class T>
void multiply_narrow(std::int64_t n_rows, const float* x, std::int64_t x_stride, const T* tile, std::int64_t n_in,
                     std::int64_t width, float* y, std::int64_t y_stride) {
  if (width == kTileWidth) return multiply_rows<kMaxRows>(n_rows, x, x_stride, tile, n_in, y, y_stride);
  float whole[kMaxRows * kTileWidth] = {};  // [n_rows, kTileWidth]
  for (std::int64_t r = 0; r < n_rows; ++r) std::copy_n(y + r * y_stride, width, whole + r * kTileWidth);
  multiply_rows<kMaxRows>(n_rows, x, x_stride, tile, n_in, whole, kTileWidth);
  for (std::int64_t r = 0; r < n_rows; ++r) std::copy_n(whole + r * kTileWidth, width, y + r * y_stride);
}

void widen(const Bf16* from, std::int64_t n_values, float* to) {
  for (std::int64_t i = 0; i < n_values; i += kLanes) hn::StoreU(load(from + i), F32(), to + i);
}

std::int64_t tile_width(const Bf16Tiles& weight, std::int64_t tile) {
  return std::min(kTileWidth, weight.n_out - tile * kTileWidth);
}

/// Few rows: weights go from memory to registers.
void multiply_few(const Bf16Tiles& weight, const ProductArgs& args, std::int64_t tile, std::int64_t last_tile) {
  const std::int64_t tile_stride = weight.n_in * kTileWidth;
  if (args.n_rows == 1) {
    for (; tile + kTilesPerGroup <= last_tile && tile_width(weight, tile + kTilesPerGroup - 1) == kTileWidth;
         tile += kTilesPerGroup) {
      multiply_block<1, kTilesPerGroup>(args.x, 0, weight.values + tile * tile_stride, tile_stride, weight.n_in,
                                        args.y + tile * kTileWidth, 0);
    }
  }
  for (; tile < last_tile; ++tile) {
    multiply_narrow(args.n_rows, args.x, args.x_stride, weight.values + tile * tile_stride, weight.n_in,
                    tile_width(weight, tile), args.y + tile * kTileWidth, args.y_stride);
  }
}

/// Many rows: a block of a tile is widened once and serves kRowBlock rows.
void multiply_many(const Bf16Tiles& weight, const ProductArgs& args, std::int64_t first_tile, std::int64_t last_tile) {
  HWY_ALIGN float block[kInBlock * kTileWidth];  // [kInBlock, kTileWidth]
  for (std::int64_t row = 0; row < args.n_rows; row += kRowBlock) {
    const std::int64_t last_row = std::min(row + kRowBlock, args.n_rows);
    for (std::int64_t k = 0; k < weight.n_in; k += kInBlock) {
      const std::int64_t n_in = std::min(kInBlock, weight.n_in - k);
      for (std::int64_t tile = first_tile; tile < last_tile; ++tile) {
        widen(weight.values + (tile * weight.n_in + k) * kTileWidth, n_in * kTileWidth, block);
        for (std::int64_t r = row; r < last_row; r += kMaxRows) {
          multiply_narrow(std::min<std::int64_t>(kMaxRows, last_row - r), args.x + r * args.x_stride + k, args.x_stride,
                          block, n_in, tile_width(weight, tile), args.y + r * args.y_stride + tile * kTileWidth,
                          args.y_stride);
        }
      }
    }
  }
}

void multiply_tiles(const Bf16Tiles& weight, const ProductArgs& args, std::int64_t first_tile, std::int64_t last_tile) {
  if (args.n_rows <= kMaxRows) {
    multiply_few(weight, args, first_tile, last_tile);
  } else {
    multiply_many(weight, args, first_tile, last_tile);
  }
}

}  // namespace kvlab::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlab::cpu {
namespace {

HWY_EXPORT(multiply_tiles);

/// The value each sum starts from: zero, the bias, what y holds, or both.
void start_sums(const ProductArgs& args, std::int64_t first, std::int64_t last) {
  for (std::int64_t r = 0; r < args.n_rows; ++r) {
    float* y = args.y + r * args.y_stride;
    if (!args.accumulate) std::fill(y + first, y + last, 0.0F);
    if (args.bias == nullptr) continue;
    for (std::int64_t j = first; j < last; ++j) y[j] += args.bias[j];
  }
}

}  // namespace

void multiply_tiles(const Bf16Tiles& weight, const ProductArgs& args, std::int64_t first_tile, std::int64_t last_tile) {
  start_sums(args, first_tile * kTileWidth, std::min(last_tile * kTileWidth, weight.n_out));
  HWY_DYNAMIC_DISPATCH(multiply_tiles)(weight, args, first_tile, last_tile);
}

}  // namespace kvlab::cpu
#endif
