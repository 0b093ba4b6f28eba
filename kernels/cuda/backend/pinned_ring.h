// Pinned memory for uploads of one kind, step after step: while the device may still read one piece, the host fills
// another.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/backend/pinned_piece.h"

namespace kvlab::cuda {

class PinnedRing {
 public:
  /// Pieces of `bytes` bytes. `context` outlives it.
  PinnedRing(DeviceContext& context, std::size_t bytes)
      : context_(context), pieces_{{{context.runtime(), bytes}, {context.runtime(), bytes}}} {}

  /// The piece that was sealed longest ago, once no copy reads it any more. The host runs one step ahead of the device,
  /// so with two pieces it does not have to wait.
  std::byte* next() {
    current_ = (current_ + 1) % pieces_.size();
    pieces_[current_].wait();
    return pieces_[current_].memory();
  }
  /// What the stream was given so far is all that reads the piece.
  void seal() { pieces_[current_].seal(context_.stream()); }

 private:
  DeviceContext& context_;
  std::array<PinnedPiece, 2> pieces_;
  std::size_t current_ = 0;
};

}  // namespace kvlab::cuda
