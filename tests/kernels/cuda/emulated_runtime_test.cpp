// The emulated runtime: memory, transfers, recorded graphs, and launches that overlap the one before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda_emulation/runtime.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using emulation::EmulationError;
using testing::HasSubstr;
using testing::ThrowsMessage;

KVLAB_KERNEL void add_kernel(Global<int> values, int n) {
  store_global(values + thread_x(), load_global(values + thread_x()) + n);
}

TEST(CudaEmulatedRuntime, AGraphHoldsItsArgumentsByValue) {
  emulation::Device device;
  const auto runtime = emulation::make_emulated_runtime(device);
  CUstream_st* stream = runtime->make_stream();
  auto* values = static_cast<int*>(runtime->allocate(32 * sizeof(int), "values", stream));
  runtime->fill(values, 0, 32 * sizeof(int), stream);
  int n = 5;
  runtime->begin_capture(stream);
  launch("add", add_kernel, {1, 32}, stream, values, n);
  const std::unique_ptr<Graph> graph = runtime->end_capture(stream);
  EXPECT_EQ(device.n_launches(), 0) << "recording runs nothing";
  n = 1000;
  graph->launch(stream);
  graph->launch(stream);
  std::vector<int> result(32);
  runtime->copy_to_host(result.data(), values, 32 * sizeof(int), stream);
  runtime->synchronize(stream);
  EXPECT_EQ(result, std::vector<int>(32, 10));
  EXPECT_EQ(device.n_launches(), 2);
  EXPECT_EQ(runtime->transfers().n_to_host, 1);
  EXPECT_EQ(runtime->transfers().to_host_bytes, 128);
  EXPECT_EQ(runtime->transfers().to_device_bytes, 0);
  runtime->release(values, stream);
  EXPECT_THAT([&] { graph->launch(stream); }, ThrowsMessage<EmulationError>(HasSubstr("outside device memory")))
      << "a graph that outlives its memory";
}

TEST(CudaEmulatedRuntime, RefusesWhatADeviceWouldRefuse) {
  emulation::Device device;
  const auto runtime = emulation::make_emulated_runtime(device);
  CUstream_st* stream = runtime->make_stream();
  CUevent_st* event = runtime->make_event();
  EXPECT_THROW(runtime->begin_capture(nullptr), EmulationError);
  EXPECT_THROW(runtime->end_capture(stream), EmulationError);
  EXPECT_THROW(runtime->wait(stream, event), EmulationError);
  EXPECT_THROW(runtime->elapsed_s(event, event), EmulationError);
  runtime->begin_capture(stream);
  EXPECT_THROW(runtime->synchronize(stream), EmulationError);
  EXPECT_THROW(runtime->allocate(16, "late", stream), EmulationError);
  runtime->end_capture(stream);
  runtime->record(event, stream);
  runtime->wait(stream, event);
  EXPECT_EQ(runtime->elapsed_s(event, event), std::nullopt) << "an emulator has no times";
  void* memory = runtime->allocate(16, "small", stream);
  std::vector<char> host(17);
  EXPECT_THROW(runtime->copy_to_host(host.data(), memory, 17, stream), EmulationError);
  EXPECT_THROW(runtime->copy_to_device(memory, host.data(), 17, stream), EmulationError);
  EXPECT_THROW(device.release(host.data()), EmulationError);
}

/// "" or what is found when the host fills pinned memory anew after a copy from it; `wait` is called in between.
template <class Wait>
std::string refill_failure(const Wait& wait, bool of_pinned_memory) {
  emulation::Device device;
  const auto runtime = emulation::make_emulated_runtime(device);
  CUstream_st* stream = runtime->make_stream();
  CUevent_st* event = runtime->make_event();
  void* copy = runtime->allocate(4 * sizeof(int), "copy", stream);
  std::vector<int> pageable(4, 1);
  auto* values = static_cast<int*>(runtime->allocate_pinned(4 * sizeof(int)));
  if (!of_pinned_memory) values = pageable.data();
  std::fill_n(values, 4, 1);
  try {
    runtime->record(event, stream);  // too early to say anything about the copy
    runtime->copy_to_device(copy, values, 2 * sizeof(int), stream);
    wait(*runtime, stream, event);
    values[2] = 5;  // not among those that are copied
    values[1] = 5;
    runtime->copy_to_device(copy, values, 4 * sizeof(int), stream);
    runtime->synchronize(stream);
  } catch (const EmulationError& error) {
    return error.what();
  }
  return "";
}

TEST(CudaEmulatedRuntime, PinnedMemoryMustNotChangeUnderACopy) {
  const auto never = [](Runtime&, CUstream_st*, CUevent_st*) {};
  const auto event_before_it = [](Runtime& runtime, CUstream_st*, CUevent_st* event) {
    runtime.synchronize_event(event);
  };
  const auto event_after_it = [](Runtime& runtime, CUstream_st* stream, CUevent_st* event) {
    runtime.record(event, stream);
    runtime.synchronize_event(event);
  };
  const auto stream = [](Runtime& runtime, CUstream_st* of, CUevent_st*) { runtime.synchronize(of); };
  EXPECT_THAT(refill_failure(never, true),
              HasSubstr("the host changed pinned memory that a copy of 8 bytes may still"));
  EXPECT_THAT(refill_failure(event_before_it, true), HasSubstr("wait for an event after it"));
  EXPECT_EQ(refill_failure(event_after_it, true), "");
  EXPECT_EQ(refill_failure(stream, true), "");
  EXPECT_EQ(refill_failure(never, false), "") << "pageable memory is staged before the call returns";
}

TEST(CudaEmulatedRuntime, DeviceMemoryIsAlignedAndStartsAsNan) {
  emulation::Device device;
  const auto* memory = static_cast<const std::uint8_t*>(device.allocate(3, "odd"));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(memory[i], 0xFF);
}

enum class Wait { before_the_read, after_the_read, never };

template <Wait wait>
KVLAB_KERNEL void copy_overlapping_kernel(Global<const int> from, Global<int> to) {
  if constexpr (wait == Wait::before_the_read) wait_for_previous_launch();
  const int value = load_global(from + thread_x());
  if constexpr (wait == Wait::after_the_read) wait_for_previous_launch();
  store_global(to + thread_x(), value);
}

std::string overlap_failure(void (*copy)(Global<const int>, Global<int>), bool reads_what_is_written) {
  const emulation::Device device;
  const test::DeviceArray<int> written("written", std::vector<int>(32, 1));
  const test::DeviceArray<int> other("other", std::vector<int>(32, 3));
  const test::DeviceArray<int> to("to", 32);
  launch("add", add_kernel, {1, 32}, nullptr, written.data(), 1);
  try {
    launch("copy_overlapping", copy, {.block_size = 32, .overlaps_previous = true}, nullptr,
           reads_what_is_written ? written.data() : other.data(), to.data());
  } catch (const EmulationError& error) {
    return error.what();
  }
  EXPECT_EQ(to.values(), std::vector<int>(32, reads_what_is_written ? 2 : 3));
  return "";
}

TEST(CudaEmulatedRuntime, AnOverlappingLaunchMustWaitBeforeItReads) {
  EXPECT_EQ(overlap_failure(copy_overlapping_kernel<Wait::before_the_read>, true), "");
  EXPECT_EQ(overlap_failure(copy_overlapping_kernel<Wait::after_the_read>, false), "") << "a prologue may read weights";
  EXPECT_THAT(overlap_failure(copy_overlapping_kernel<Wait::after_the_read>, true),
              HasSubstr("reads written at byte 0, which the previous launch writes, before wait_for_previous_launch"));
  EXPECT_THAT(overlap_failure(copy_overlapping_kernel<Wait::never>, false),
              HasSubstr("ends without wait_for_previous_launch"));
}

KVLAB_KERNEL void constant_then_written_kernel(Global<int> values) {
  store_global(values + thread_x(), 1);
  store_global(values + thread_x(), load_global_constant(values + thread_x()) + 1);
}

TEST(CudaEmulatedRuntime, ConstantLoadsMustStayConstant) {
  const emulation::Device device;
  const test::DeviceArray<int> values("values", std::vector<int>(32, 0));
  EXPECT_THAT(
      [&] {
        launch("constant_then_written", constant_then_written_kernel, {1, 32}, nullptr, values.data());
      },
      ThrowsMessage<EmulationError>(HasSubstr("reads values at byte 0 as constant")));
}

}  // namespace
}  // namespace kvlab::cuda
