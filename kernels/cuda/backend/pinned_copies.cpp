#include "kernels/cuda/backend/pinned_copies.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "kernels/cuda/backend/pinned_piece.h"

namespace kvlab::cuda {

/// Pieces that no copy uses. Outlives the copies that will come back to it.
struct PinnedCopies::Pool {
  std::shared_ptr<DeviceContext> context;
  std::vector<std::unique_ptr<PinnedPiece>> free;

  std::unique_ptr<PinnedPiece> take(std::size_t bytes) {
    const auto fits =
        std::find_if(free.begin(), free.end(), [&](const auto& piece) { return piece->bytes() >= bytes; });
    if (fits == free.end()) return std::make_unique<PinnedPiece>(context->runtime(), bytes);
    std::unique_ptr<PinnedPiece> piece = std::move(*fits);
    free.erase(fits);
    return piece;
  }

  class Copy final : public PendingCopy {
   public:
    Copy(std::shared_ptr<Pool> pool, std::unique_ptr<PinnedPiece> piece)
        : pool_(std::move(pool)), piece_(std::move(piece)) {}
    ~Copy() override {
      try {
        piece_->wait();  // the device may still write to it
        pool_->free.push_back(std::move(piece_));
      } catch (const std::exception&) {
        // The device has failed, and the next call says so.
      }
    }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    const void* wait() override {
      piece_->wait();
      return piece_->memory();
    }

   private:
    std::shared_ptr<Pool> pool_;
    std::unique_ptr<PinnedPiece> piece_;
  };
};

PinnedCopies::PinnedCopies(std::shared_ptr<DeviceContext> context) : pool_(std::make_shared<Pool>()) {
  pool_->context = std::move(context);
}

std::unique_ptr<PendingCopy> PinnedCopies::start(const void* from, std::size_t bytes) {
  const DeviceContext& context = *pool_->context;
  std::unique_ptr<PinnedPiece> piece = pool_->take(bytes);
  context.runtime().copy_to_host(piece->memory(), from, bytes, context.stream());
  piece->seal(context.stream());
  return std::make_unique<Pool::Copy>(pool_, std::move(piece));
}

}  // namespace kvlab::cuda
