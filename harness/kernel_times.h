// `--kernel-times`: from the kernels that ran in a round's decode steps to a table. Pure arithmetic; who traced them:
// kernel_times_run.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/cupti/kernel_trace.h"

namespace kvlab {

/// One pass of a round: what ran in it, and how long it took as the host saw it.
struct TracedPass {
  std::vector<cuda::KernelRecord> kernels;
  double pass_s = 0;
};

struct KernelRow {
  std::string kernel;  // without namespaces, return type and function arguments
  std::int64_t count = 0;
  double total_s = 0;
  double share = 0;  // of all kernels' time
  double median_s = 0;

  bool operator==(const KernelRow&) const = default;
};

struct KernelTimes {
  std::vector<KernelRow> rows;  // the longest total first
  std::int64_t n_kernels = 0;
  double kernel_s = 0;  // sum over all kernels: two that overlap count twice
  double pass_s = 0;
  double gaps = 0;  // 1 - kernel_s / pass_s
};

/// "void kvlab::cuda::f<3, float>(float const*)" -> "f<3, float>".
std::string kernel_label(const std::string& demangled);

/// Of at least one pass.
KernelTimes kernel_times(std::span<const TracedPass> passes);

std::string kernel_times_text(const std::string& title, const KernelTimes& times);
nlohmann::ordered_json kernel_times_json(const KernelTimes& times);

}  // namespace kvlab
