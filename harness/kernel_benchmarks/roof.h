// The roof over a kernel call: the least time that measured ceilings allow, and the counters that compare a call with
// it.
#pragma once

#include <benchmark/benchmark.h>

#include <string>

#include "harness/ceilings.h"
#include "harness/kernel_benchmarks/entry.h"

namespace kvlab {

/// No call that gets its operands from memory takes less time.
struct Roof {
  double seconds = 0;
  std::string name;
};

Roof roof_of(const CallCost& cost, const Ceilings& ceilings);

/// FLOP/s, bytes/s and the part of the ceiling that the timed iterations reached.
void count(const CallCost& cost, const Roof& roof, benchmark::State& state);

}  // namespace kvlab
