#include "kernels/cuda/backend/event_marks.h"

#include <utility>
#include <vector>

namespace kvlab::cuda {

/// Events that no mark uses. Outlives the marks that will come back to it.
struct EventMarks::Pool {
  explicit Pool(std::shared_ptr<DeviceContext> of) : context(std::move(of)) {}
  ~Pool() {
    for (CUevent_st* event : free) context->runtime().destroy_event(event);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  class Mark final : public TimeMark {
   public:
    Mark(std::shared_ptr<Pool> pool, CUevent_st* event) : pool_(std::move(pool)), event_(event) {}
    ~Mark() override { pool_->free.push_back(event_); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

    std::optional<double> since_s(const TimeMark& earlier) override {
      Runtime& runtime = pool_->context->runtime();
      runtime.synchronize_event(event_);
      return runtime.elapsed_s(dynamic_cast<const Mark&>(earlier).event_, event_);
    }

   private:
    std::shared_ptr<Pool> pool_;
    CUevent_st* event_;
  };

  std::shared_ptr<DeviceContext> context;
  std::vector<CUevent_st*> free;
};

EventMarks::EventMarks(std::shared_ptr<DeviceContext> context) : pool_(std::make_shared<Pool>(std::move(context))) {}

std::unique_ptr<TimeMark> EventMarks::mark() {
  Runtime& runtime = pool_->context->runtime();
  CUevent_st* event = nullptr;
  if (pool_->free.empty()) {
    event = runtime.make_event();
  } else {
    event = pool_->free.back();
    pool_->free.pop_back();
  }
  runtime.record(event, pool_->context->stream());
  return std::make_unique<Pool::Mark>(pool_, event);
}

}  // namespace kvlab::cuda
