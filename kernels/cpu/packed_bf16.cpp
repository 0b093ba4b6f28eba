// Packs bf16 tiles and spreads a product's tiles over threads.
#include "kernels/cpu/packed_bf16.h"

#include <algorithm>

#include "kernels/cpu/bf16_tiles.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/threads.h"

namespace kvlab::cpu {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class PackedBf16 final : public CpuMatrix {
 public:
  explicit PackedBf16(const HostMatrix& weight)
      : n_out_(weight.rows),
        n_in_(weight.cols),
        n_tiles_(ceil_div(n_out_, kTileWidth)),
        storage_(static_cast<std::size_t>(n_tiles_ * n_in_ * kTileWidth) * sizeof(Bf16)) {
    Bf16* values = static_cast<Bf16*>(storage_.data());
    for (std::int64_t feature = 0; feature < n_out_; ++feature) {
      Bf16* column = values + feature / kTileWidth * n_in_ * kTileWidth + feature % kTileWidth;
      const float* row = weight.row(feature);
      for (std::int64_t k = 0; k < n_in_; ++k) column[k * kTileWidth] = bf16_from_float(row[k]);
    }
    tiles_ = {values, n_out_, n_in_};
  }

  std::int64_t n_out() const override { return n_out_; }
  std::int64_t n_in() const override { return n_in_; }
  DType dtype() const override { return DType::bf16; }

  void multiply(const ProductArgs& args, int n_threads) const override {
    share_out(lanes(args, n_threads), [&](Share share) { multiply_part(args, share); });
  }

  std::unique_ptr<Task> record(const ProductArgs& args, int n_threads) const override {
    const auto part = [this, args](Share share) { multiply_part(args, share); };
    return std::make_unique<FixedTask<decltype(part)>>(lanes(args, n_threads), part);
  }

 private:
  int lanes(const ProductArgs& args, int n_threads) const {
    return threads_for(args.n_rows * n_out_ * n_in_, ceil_div(n_tiles_, kTilesPerGroup), n_threads);
  }

  void multiply_part(const ProductArgs& args, Share share) const {
    const ItemRange groups = part_of(ceil_div(n_tiles_, kTilesPerGroup), share);
    const std::int64_t first = groups.first * kTilesPerGroup;
    const std::int64_t last = std::min(groups.last * kTilesPerGroup, n_tiles_);
    if (first < last) multiply_tiles(tiles_, args, first, last);
  }

  std::int64_t n_out_;
  std::int64_t n_in_;
  std::int64_t n_tiles_;
  AlignedBuffer storage_;  // [n_tiles, n_in, kTileWidth]
  Bf16Tiles tiles_;
};

}  // namespace

std::unique_ptr<CpuMatrix> pack_bf16(const HostMatrix& weight) { return std::make_unique<PackedBf16>(weight); }

}  // namespace kvlab::cpu
