// Streams that work at once or record, and graphs that replay what was recorded.
#include "kernels/cuda_emulation/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/launch.h"
#include "kernels/cuda_emulation/pinned_memory.h"

namespace kvlab::cuda::emulation {

namespace {

struct Stream {
  bool capturing = false;
  std::vector<std::function<void()>> recorded;

  static Stream* of(CUstream_st* stream) { return reinterpret_cast<Stream*>(stream); }
};

struct Event {
  bool recorded = false;
  double at_s = 0;
  std::int64_t n_pinned_reads = 0;  // started before it was recorded
  static Event* of(CUevent_st* event) { return reinterpret_cast<Event*>(event); }
};

}  // namespace

void enqueue(CUstream_st* stream, std::function<void()> work) {
  if (stream != nullptr && Stream::of(stream)->capturing) {
    Stream::of(stream)->recorded.push_back(std::move(work));
  } else {
    work();
  }
}

namespace {

class EmulatedGraph : public Graph {
 public:
  explicit EmulatedGraph(std::vector<std::function<void()>> work) : work_(std::move(work)) {}
  void launch(CUstream_st* stream) override {
    enqueue(stream, [work = work_] {
      for (const auto& step : work) step();
    });
  }

 private:
  std::vector<std::function<void()>> work_;
};

class EmulatedRuntime : public Runtime {
 public:
  EmulatedRuntime(Device& device, Clock clock) : device_(device), clock_(std::move(clock)) {}
  ~EmulatedRuntime() override {
    for (Stream* stream : streams_) delete stream;
    for (Event* event : events_) delete event;
  }
  EmulatedRuntime(const EmulatedRuntime&) = delete;
  EmulatedRuntime& operator=(const EmulatedRuntime&) = delete;

  void* allocate(std::size_t bytes, const std::string& name, CUstream_st* stream) override {
    refuse_in_capture(stream, "allocate");
    return device_.allocate(bytes, name);
  }
  void release(void* memory, CUstream_st* stream) noexcept override {
    refuse_in_capture(stream, "release");
    device_.release(memory);
  }

  void* allocate_pinned(std::size_t bytes) override { return pinned_.allocate(bytes); }
  void release_pinned(void* memory) noexcept override { pinned_.release(memory); }

  void copy_to_device(void* to, const void* from, std::size_t bytes, CUstream_st* stream) override {
    check_range("copy_to_device", to, bytes);
    enqueue(stream, [=, this] {
      if (pinned_.holds(from)) pinned_.start_read(from, bytes);
      std::memcpy(to, from, bytes);
      ++transfers_.n_to_device;
      transfers_.to_device_bytes += static_cast<std::int64_t>(bytes);
    });
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes, CUstream_st* stream) override {
    check_range("copy_to_host", from, bytes);
    enqueue(stream, [=, this] {
      std::memcpy(to, from, bytes);
      ++transfers_.n_to_host;
      transfers_.to_host_bytes += static_cast<std::int64_t>(bytes);
    });
  }
  void fill(void* to, std::uint8_t byte, std::size_t bytes, CUstream_st* stream) override {
    check_range("fill", to, bytes);
    enqueue(stream, [=] { std::memset(to, byte, bytes); });
  }
  Transfers transfers() const override { return transfers_; }

  /// Few, so that work of a few blocks is spread over all of them as on a device.
  std::int64_t n_multiprocessors() const override { return 3; }
  // Small, so that what goes by them takes a test no time.
  std::int64_t l2_bytes() const override { return std::int64_t{16} << 10; }
  std::int64_t free_bytes() const override {
    return std::min(std::int64_t{16} << 20, device_.options().memory_bytes - device_.allocated_bytes());
  }

  CUstream_st* make_stream() override {
    auto* stream = new Stream;
    streams_.insert(stream);
    return reinterpret_cast<CUstream_st*>(stream);
  }
  void destroy_stream(CUstream_st* stream) noexcept override {
    streams_.erase(Stream::of(stream));
    delete Stream::of(stream);
  }
  void synchronize(CUstream_st* stream) override {
    refuse_in_capture(stream, "synchronize");
    pinned_.finish_reads(pinned_.n_reads());
    device_.forget_previous_launch();
  }

  CUevent_st* make_event() override {
    auto* event = new Event;
    events_.insert(event);
    return reinterpret_cast<CUevent_st*>(event);
  }
  void destroy_event(CUevent_st* event) noexcept override {
    events_.erase(Event::of(event));
    delete Event::of(event);
  }
  void record(CUevent_st* event, CUstream_st* stream) override {
    enqueue(stream, [event, this] {
      Event::of(event)->recorded = true;
      Event::of(event)->n_pinned_reads = pinned_.n_reads();
      if (clock_) Event::of(event)->at_s = clock_();
    });
  }
  void synchronize_event(CUevent_st* event) override {
    if (!Event::of(event)->recorded) throw EmulationError("synchronize_event: the event has never been recorded");
    pinned_.finish_reads(Event::of(event)->n_pinned_reads);
  }
  void wait(CUstream_st* stream, CUevent_st* event) override {
    enqueue(stream, [event] {
      if (!Event::of(event)->recorded) throw EmulationError("wait: the event has never been recorded");
    });
  }
  std::optional<double> elapsed_s(CUevent_st* from, CUevent_st* to) override {
    if (!Event::of(from)->recorded || !Event::of(to)->recorded) {
      throw EmulationError("elapsed_s: an event has not been recorded");
    }
    if (!clock_) return std::nullopt;
    return Event::of(to)->at_s - Event::of(from)->at_s;
  }

  void begin_capture(CUstream_st* stream) override {
    if (stream == nullptr) throw EmulationError("begin_capture: the default stream cannot record");
    refuse_in_capture(stream, "begin_capture");
    Stream::of(stream)->capturing = true;
  }
  std::unique_ptr<Graph> end_capture(CUstream_st* stream) override {
    if (stream == nullptr || !Stream::of(stream)->capturing) {
      throw EmulationError("end_capture: the stream is not recording");
    }
    Stream::of(stream)->capturing = false;
    return std::make_unique<EmulatedGraph>(std::exchange(Stream::of(stream)->recorded, {}));
  }

  void abandon_capture(CUstream_st* stream) noexcept override {
    Stream::of(stream)->capturing = false;
    Stream::of(stream)->recorded.clear();
  }

  void start_profiler() override {
    if (std::exchange(profiling_, true)) throw EmulationError("start_profiler: it runs already");
  }
  void stop_profiler() override {
    if (!std::exchange(profiling_, false)) throw EmulationError("stop_profiler: it does not run");
  }

 private:
  /// What a device would refuse, or leave to another moment than the graph's.
  static void refuse_in_capture(CUstream_st* stream, const char* call) {
    if (stream != nullptr && Stream::of(stream)->capturing) {
      throw EmulationError(fmt::format("{}: the stream is recording", call));
    }
  }
  void check_range(const char* call, const void* memory, std::size_t bytes) const {
    const Allocation* buffer = device_.find(memory);
    if (bytes == 0) return;
    if (buffer == nullptr ||
        static_cast<std::size_t>(static_cast<const std::byte*>(memory) - buffer->memory) + bytes > buffer->bytes) {
      throw EmulationError(fmt::format("{}: {} bytes do not lie in device memory", call, bytes));
    }
  }

  Device& device_;
  Clock clock_;
  PinnedMemory pinned_;
  Transfers transfers_;
  bool profiling_ = false;
  std::set<Stream*> streams_;
  std::set<Event*> events_;
};

}  // namespace

std::unique_ptr<Runtime> make_emulated_runtime(Device& device, Clock clock) {
  return std::make_unique<EmulatedRuntime>(device, std::move(clock));
}

void launch(const char* kernel, const LaunchShape& shape, CUstream_st* stream, const std::function<void()>& body) {
  enqueue(stream, [=] { Device::current().launch(kernel, shape, body); });
}

}  // namespace kvlab::cuda::emulation
