#include "harness/kernel_benchmarks/measuring.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "harness/ceilings.h"
#include "harness/interrupt.h"
#include "harness/kernel_benchmarks/entries.h"
#include "harness/kernel_benchmarks/roof.h"
#include "harness/machine.h"

namespace kvlab {
namespace {

constexpr double kCeilingBudgetS = 2;
constexpr double kMemoryShare = 0.8;  // of what is available

/// Sets of operands to rotate over: warm one; cold enough that a set has left the last-level cache when its turn comes.
std::int64_t sets_needed(const KernelEntry& entry, bool cold) {
  return cold ? 2 * last_level_cache_bytes() / entry.cost.bytes + 1 : 1;
}

/// Google Benchmark calls a benchmark several times with more iterations each: what is expensive to make is kept, one
/// entry at a time.
class Bench {
 public:
  void run(const KernelEntry& entry, int threads, bool cold, benchmark::State& state) {
    try {
      stop_if_interrupted();
      measure(entry, threads, cold, state);
    } catch (const Interrupted&) {
      state.SkipWithError(kNotRun);
    }
  }

 private:
  void measure(const KernelEntry& entry, int threads, bool cold, benchmark::State& state) {
    const std::int64_t n_sets = sets_needed(entry, cold);
    const std::string key = fmt::format("{} {} {}", entry.name, threads, n_sets);
    if (key != prepared_) {
      call_ = {};
      prepared_.clear();
      const auto needed = static_cast<double>(n_sets * entry.set_bytes + entry.prepare_bytes);
      const double available = kMemoryShare * static_cast<double>(read_machine().memory_available_bytes);
      if (!(needed <= available)) {
        state.SkipWithError(fmt::format("needs {:.1f} GB, {:.1f} GB available", needed / 1e9, available / 1e9).c_str());
        return;
      }
      ceilings(threads);  // measured while little memory is in use
      call_ = entry.prepare(operations(threads), n_sets);
      prepared_ = key;
    }
    time(n_sets, state);
    count(entry.cost, roof_of(entry.cost, ceilings(threads)), state);
  }

  void time(std::int64_t n_sets, benchmark::State& state) {
    call_(0);  // what a kernel prepares for a shape it prepares here
    std::int64_t set = 0;
    for (auto iteration : state) {
      static_cast<void>(iteration);
      stop_if_interrupted();
      set = set + 1 < n_sets ? set + 1 : 0;
      call_(set);
      benchmark::ClobberMemory();
    }
  }

  Operations& operations(int threads) {
    if (ops_ == nullptr || ops_threads_ != threads) ops_ = make_cpu_operations(threads);
    ops_threads_ = threads;
    return *ops_;
  }

  const Ceilings& ceilings(int threads) {
    const auto found = ceilings_.find(threads);
    if (found != ceilings_.end()) return found->second;
    return ceilings_.emplace(threads, measure_ceilings(threads, kCeilingBudgetS)).first->second;
  }

  std::map<int, Ceilings> ceilings_;  // by threads
  int ops_threads_ = 0;
  std::unique_ptr<Operations> ops_;  // outlives call_
  KernelCall call_;
  std::string prepared_;  // what call_ is for
};

std::vector<int> thread_counts(int max_threads) {
  std::vector<int> counts;
  for (int threads = 1; threads < max_threads; threads *= 2) counts.push_back(threads);
  counts.push_back(max_threads);
  return counts;
}

}  // namespace

void register_kernel_benchmarks(int max_threads) {
  const auto bench = std::make_shared<Bench>();
  for (const KernelEntry& entry : kernel_entries()) {
    for (const bool cold : {true, false}) {
      for (const int threads : thread_counts(max_threads)) {
        const std::string name = fmt::format("{}/{}/omp:{}", entry.name, cold ? "cold" : "warm", threads);
        benchmark::RegisterBenchmark(name.c_str(), [bench, entry, threads, cold](benchmark::State& state) {
          bench->run(entry, threads, cold, state);
        })->UseRealTime();
      }
    }
  }
}

}  // namespace kvlab
