// kvlab-kernels: every kernel by itself, under Google Benchmark.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/devices.h"
#include "harness/interrupt.h"
#include "harness/kernel_benchmarks/cuda_measuring.h"
#include "harness/kernel_benchmarks/measuring.h"
#include "harness/threads.h"
#include "kernels/error.h"

namespace {

constexpr int kWrongRequest = 2;
constexpr int kMaxThreads = 1024;

constexpr std::string_view kHelp =
    R"(kvlab-kernels: each kernel by itself, on the shapes of a layer of SmolLM2-135M and Llama 3.1 8B.

Names are OPERATION/MODEL/.../DTYPE/cold|warm/omp:THREADS/real_time, for instance
  matmul/smollm2-135m/gate_up/rows:128/bf16/cold/omp:1/real_time
  attention_fused/llama-3.1-8b/decode/context:4096/paged/f32/warm/omp:2/real_time
Operations: matmul attention_naive attention_fused append embed rms_norm layer_norm rope silu_multiply gelu gather_rows.
cold: operands rotate over twice the last-level cache, so that each call reads memory. warm: the same operands again.

Where a GPU can be used there are also cuda/OPERATION/MODEL/.../cold|warm/manual_time, for instance
  cuda/gemv/llama-3.1-8b/gate_up/rows:1/bf16/own/cold/manual_time        (own|cublas: which code runs the product)
  cuda/attention_fused/llama-3.1-8b/decode/batch:1/context:65536/paged:64/bf16/cold/manual_time
Their calls are one recorded graph, timed by the device's clock; cold rotates over 403 MB of operands.

Examples
  kvlab-kernels --benchmark_list_tests=true
  kvlab-kernels --benchmark_filter='^matmul/smollm2-135m/.*/rows:1/.*/cold/omp:1/'
  kvlab-kernels --benchmark_filter='^attention_.*/decode/' --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
  kvlab-kernels --benchmark_filter='rms_norm' --benchmark_out=norms.json --benchmark_out_format=json

Counters
  flops_per_s       FLOP/s; none for operations that only move data. Row operations count an exponential as one.
  bytes_per_s       bytes of the operands, each once, per second
  ceiling_fraction  the least time that this machine needs by its measured ceilings, as a part of the time taken; which
                    ceiling binds stands beside it. Warm caches can exceed 1. Ceilings are measured first, with the
                    same threads, which takes some seconds.

Flags
  --device=NAME               cpu: no CUDA entries; cuda: these alone; auto (default): both where there is a GPU
  --threads=N                 the most threads (omp:1, 2, 4 ... N); default: every core, or OMP_NUM_THREADS
  --benchmark_filter=REGEX    which benchmarks; -REGEX: all but these
  --benchmark_list_tests=true names only
  --benchmark_min_time=S      seconds a benchmark, at least (0.5); of a cuda entry: of one call's share of its graph, so
                              that it takes as many times longer as the graph has calls (8 or more)
  --benchmark_repetitions=N, --benchmark_report_aggregates_only=true
  --benchmark_enable_random_interleaving=true
  --benchmark_format=console|json|csv, --benchmark_out=FILE, --benchmark_out_format=json|console|csv
  --benchmark_counters_tabular=true
  --help

Ctrl-C and SIGTERM end what runs; entries that have not run are errors in the output, which is whole. Exit code 130.
)";

[[noreturn]] void refuse(std::string_view what) {
  fmt::print(stderr, "error: {}; see kvlab-kernels --help\n", what);
  std::exit(kWrongRequest);
}

int parsed_threads(std::string_view text) {
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc() || end != text.data() + text.size() || threads < 1 || threads > kMaxThreads) {
    refuse(fmt::format("--threads is '{}'; it must be a whole number from 1 to {}", text, kMaxThreads));
  }
  return threads;
}

/// Takes `flag`VALUE out of the arguments; the last one counts, nothing when there is none.
std::optional<std::string> take_value(std::string_view flag, int& argc, char** argv) {
  std::optional<std::string> value;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(flag)) {
      value = argument.substr(flag.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  argv[argc] = nullptr;
  return value;
}

/// Registers what runs on `device`, as --device names it.
void register_benchmarks(const std::string& device, int threads) {
  if (device == "cpu" || device == "auto") kvlab::register_kernel_benchmarks(threads);
  if (device == "cpu" || (device == "auto" && !kvlab::cuda_obstacle().empty())) return;
  try {
    kvlab::register_cuda_benchmarks(device == "auto" ? "cuda" : kvlab::resolve_device(device));
  } catch (const kvlab::InputError& error) {
    refuse(error.what());
  }
}

/// Google Benchmark calls this, and then ends with 0, where the value of a flag is none that it knows.
void refuse_value() { refuse("a --benchmark_ flag has a value that is not allowed"); }

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      fmt::print("{}", kHelp);
      return 0;
    }
  }
  std::vector<char*> arguments(argv, argv + argc + 1);  // [argc + 1], the last one null
  const std::string device = take_value("--device=", argc, arguments.data()).value_or("auto");
  const auto wanted_threads = take_value("--threads=", argc, arguments.data());
  const int threads = kvlab::resolve_threads(wanted_threads ? parsed_threads(*wanted_threads) : 0);
  benchmark::Initialize(&argc, arguments.data(), refuse_value);
  if (argc > 1) refuse(fmt::format("'{}' is no flag, or its value is none", arguments[1]));
  kvlab::bind_threads(threads, argv);
  register_benchmarks(device, threads);
  kvlab::watch_for_interrupt();
  const bool any_ran = benchmark::RunSpecifiedBenchmarks() > 0;
  benchmark::ClearRegisteredBenchmarks();  // while the device whose memory they hold is there
  if (!any_ran) refuse("no benchmark has such a name");
  benchmark::Shutdown();
  return kvlab::interrupted() ? kvlab::kInterruptedExitCode : 0;
}
