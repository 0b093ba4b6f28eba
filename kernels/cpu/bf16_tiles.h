// Products with bf16 weight tiles, serial over a range of tiles; the caller spreads ranges over threads.
// Layout: tiles [n_tiles, n_in, kTileWidth]; tile t holds output features t * kTileWidth ..., missing ones zero.
#pragma once

#include <cstdint>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/dtype.h"

namespace kvlab::cpu {

/// Output features side by side: two AVX2 vectors or one AVX-512 vector of f32.
constexpr std::int64_t kTileWidth = 16;
/// Tiles that one row walks side by side, to have enough independent sums; ranges best start at multiples of it.
constexpr std::int64_t kTilesPerGroup = 4;

struct Bf16Tiles {
  const Bf16* values = nullptr;  // [n_tiles, n_in, kTileWidth]
  std::int64_t n_out = 0;
  std::int64_t n_in = 0;
};

/// Computes the output features of tiles [first_tile, last_tile).
void multiply_tiles(const Bf16Tiles& weight, const ProductArgs& args, std::int64_t first_tile, std::int64_t last_tile);

}  // namespace kvlab::cpu
