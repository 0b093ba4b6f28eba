#include "harness/kernel_benchmarks/cuda_measuring.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "harness/device_ceilings.h"
#include "harness/devices.h"
#include "harness/interrupt.h"
#include "harness/kernel_benchmarks/cuda_entries.h"
#include "harness/kernel_benchmarks/measuring.h"
#include "harness/kernel_benchmarks/roof.h"
#include "kernels/gemv_setting.h"

namespace kvlab {
namespace {

constexpr std::int64_t kLeastCalls = 8;  // in one graph
constexpr std::int64_t kMostSets = 1024;

/// Sets of operands to rotate over: warm one; cold enough that a set has left L2 when its turn comes.
std::int64_t sets_needed(const KernelEntry& entry, std::int64_t rotated_bytes) {
  return rotated_bytes == 0 ? 1 : std::min(rotated_bytes / entry.cost.bytes + 2, kMostSets);
}

/// What stays over the calls that Google Benchmark makes for one name: a backend and a recorded rotation over the sets.
class CudaBench {
 public:
  explicit CudaBench(std::string device) : device_(std::move(device)) {}

  void run(const KernelEntry& entry, GemvSetting setting, std::int64_t rotated_bytes, benchmark::State& state) {
    if (interrupted()) return state.SkipWithError(kNotRun);
    try {
      prepare(entry, setting, rotated_bytes);
      time(entry, state);
    } catch (const Interrupted&) {  // while ceilings were measured
      state.SkipWithError(kNotRun);
    } catch (const std::exception& error) {
      drop();
      ops_.reset();  // it may stand in the middle of a recording
      state.SkipWithError(error.what());
    }
  }

 private:
  void prepare(const KernelEntry& entry, GemvSetting setting, std::int64_t rotated_bytes) {
    const std::string key = fmt::format("{} {} {}", entry.name, setting_name(setting), rotated_bytes);
    if (key == prepared_) return;
    drop();
    if (ops_ == nullptr || setting != setting_) ops_ = make_operations(device_, 1, setting);
    setting_ = setting;
    if (!ceilings_ && has_device_clock(*ops_)) ceilings_ = measure_device_ceilings(*ops_);
    const std::int64_t n_sets = sets_needed(entry, rotated_bytes);
    call_ = entry.prepare(*ops_, n_sets);
    n_calls_ = std::max(n_sets, kLeastCalls);
    ops_->begin_step();
    ops_->begin_recording();
    for (std::int64_t i = 0; i < n_calls_; ++i) call_(i % n_sets);
    graph_ = ops_->end_recording();
    graph_->run();  // what a kernel prepares for a shape it prepares here
    prepared_ = key;
  }

  void drop() {
    graph_.reset();
    call_ = {};
    prepared_.clear();
  }

  /// Of one call, by the device's clock.
  std::optional<double> run_s() {
    const std::unique_ptr<TimeMark> before = ops_->mark();
    graph_->run();
    const std::optional<double> seconds = ops_->mark()->since_s(*before);
    if (!seconds) return std::nullopt;
    return *seconds / static_cast<double>(n_calls_);
  }

  void time(const KernelEntry& entry, benchmark::State& state) {
    for (auto iteration : state) {
      static_cast<void>(iteration);
      if (interrupted()) return state.SkipWithError(kNotRun);
      const std::optional<double> seconds = run_s();
      if (!seconds) return state.SkipWithError("ran; this device has no clock");
      state.SetIterationTime(*seconds);
    }
    count(entry.cost, roof_of(entry.cost, *ceilings_), state);
  }

  std::string device_;
  std::optional<Ceilings> ceilings_;  // nothing where there is no clock
  std::unique_ptr<Operations> ops_;   // outlives what follows
  GemvSetting setting_ = GemvSetting::measured;
  KernelCall call_;
  std::unique_ptr<RecordedGraph> graph_;
  std::int64_t n_calls_ = 0;
  std::string prepared_;  // what call_ and graph_ are for
};

}  // namespace

void register_cuda_benchmarks(const std::string& device) {
  const auto bench = std::make_shared<CudaBench>(device);
  const CudaBenchmarkSet set = device == "cuda" ? cuda_benchmark_set() : tiny_benchmark_set();
  const auto add = [&](const KernelEntry& entry, GemvSetting setting, const std::string& suffix) {
    for (const std::int64_t rotated_bytes : {set.rotated_bytes, std::int64_t{0}}) {
      const std::string name = fmt::format("{}{}/{}", entry.name, suffix, rotated_bytes > 0 ? "cold" : "warm");
      benchmark::RegisterBenchmark(name.c_str(), [bench, entry, setting, rotated_bytes](benchmark::State& state) {
        bench->run(entry, setting, rotated_bytes, state);
      })->UseManualTime();
    }
  };
  for (const KernelEntry& entry : cuda_attention_entries(set)) add(entry, GemvSetting::measured, "");
  for (const GemvSetting setting : {GemvSetting::own, GemvSetting::cublas}) {  // another setting is another backend
    for (const KernelEntry& entry : cuda_gemv_entries(set)) {
      add(entry, setting, fmt::format("/{}", setting_name(setting)));
    }
  }
}

}  // namespace kvlab
