#include "kernels/cuda/backend/pinned_copies.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace kvlab::cuda {
namespace {

/// Pinned memory for one copy, and the event that says when it is there.
class Slot {
 public:
  Slot(Runtime& runtime, std::size_t bytes)
      : runtime_(runtime), bytes_(bytes), memory_(runtime.allocate_pinned(bytes)), event_(runtime.make_event()) {}
  ~Slot() {
    runtime_.destroy_event(event_);
    runtime_.release_pinned(memory_);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  std::size_t bytes() const { return bytes_; }
  void start(const void* from, std::size_t bytes, CUstream_st* stream) {
    runtime_.copy_to_host(memory_, from, bytes, stream);
    runtime_.record(event_, stream);
  }
  const void* wait() {
    runtime_.synchronize_event(event_);
    return memory_;
  }

 private:
  Runtime& runtime_;
  std::size_t bytes_;
  void* memory_;
  CUevent_st* event_;
};

}  // namespace

/// Slots that no copy uses. Outlives the copies that will come back to it.
struct PinnedCopies::Pool {
  std::shared_ptr<DeviceContext> context;
  std::vector<std::unique_ptr<Slot>> free;

  std::unique_ptr<Slot> take(std::size_t bytes) {
    const auto fits = std::find_if(free.begin(), free.end(), [&](const auto& slot) { return slot->bytes() >= bytes; });
    if (fits == free.end()) return std::make_unique<Slot>(context->runtime(), bytes);
    std::unique_ptr<Slot> slot = std::move(*fits);
    free.erase(fits);
    return slot;
  }

  class Copy final : public PendingCopy {
   public:
    Copy(std::shared_ptr<Pool> pool, std::unique_ptr<Slot> slot) : pool_(std::move(pool)), slot_(std::move(slot)) {}
    ~Copy() override {
      try {
        slot_->wait();  // the device may still write to it
        pool_->free.push_back(std::move(slot_));
      } catch (const std::exception&) {
        // The device has failed, and the next call says so.
      }
    }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    const void* wait() override { return slot_->wait(); }

   private:
    std::shared_ptr<Pool> pool_;
    std::unique_ptr<Slot> slot_;
  };
};

PinnedCopies::PinnedCopies(std::shared_ptr<DeviceContext> context) : pool_(std::make_shared<Pool>()) {
  pool_->context = std::move(context);
}

std::unique_ptr<PendingCopy> PinnedCopies::start(const void* from, std::size_t bytes) {
  std::unique_ptr<Slot> slot = pool_->take(bytes);
  slot->start(from, bytes, pool_->context->stream());
  return std::make_unique<Pool::Copy>(pool_, std::move(slot));
}

}  // namespace kvlab::cuda
