// Puts kernel entries before Google Benchmark: axes for threads and for cold or warm caches, counters, ceilings.
#pragma once

namespace kvlab {

/// The error of an entry whose turn came after Ctrl-C or SIGTERM.
inline constexpr const char* kNotRun = "not run: interrupted";

/// Registers every entry for 1, 2, 4 ... and `max_threads` threads, cold and warm. Ceilings are measured when the first
/// benchmark of a thread count runs, operands are made when theirs runs.
void register_kernel_benchmarks(int max_threads);

}  // namespace kvlab
