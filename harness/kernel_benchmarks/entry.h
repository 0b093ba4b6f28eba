// What a kernel benchmark is: a name, what one call costs by its shapes, and how to make the operands. Knows nothing of
// Google Benchmark, threads or clocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/operations.h"

namespace kvlab {

/// Which measured bandwidth bounds the bytes of a call.
enum class Traffic { read, copy };

/// Of one call. Bytes are those of the operands, each once: what a call moves when nothing is in cache.
struct CallCost {
  std::int64_t flops = 0;  // 0 for operations that only move data
  std::int64_t bytes = 0;
  Traffic traffic = Traffic::read;
  DType product = DType::f32;  // the matrix product whose measured rate bounds the FLOPs
};

/// Calls the kernel on one of the sets of operands.
using KernelCall = std::function<void(std::int64_t set)>;

struct KernelEntry {
  std::string name;  // operation/shape/further axes
  CallCost cost;
  std::int64_t set_bytes = 0;      // memory of one set of operands
  std::int64_t prepare_bytes = 0;  // memory held besides while the sets are made
  std::function<KernelCall(Operations& ops, std::int64_t n_sets)> prepare;
};

/// A call over `n_sets` results of `make_set()`, each used by `use(set)`.
template <class MakeSet, class Use>
KernelCall call_over_sets(std::int64_t n_sets, MakeSet make_set, Use use) {
  auto sets = std::make_shared<std::vector<decltype(make_set())>>();
  for (std::int64_t i = 0; i < n_sets; ++i) sets->push_back(make_set());
  return [sets, use](std::int64_t set) { use((*sets)[static_cast<std::size_t>(set)]); };
}

/// n values of order one that neither vanish nor repeat in a row.
inline std::vector<float> varied_values(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251) / 125.0F - 1.0F;
  return values;
}

}  // namespace kvlab
