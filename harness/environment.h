// Where a report was made: machine, build and command, as its `environment` object tells.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/machine.h"
#include "harness/noise.h"
#include "harness/nvml.h"

namespace kvlab {

struct Library {
  std::string name;
  std::string version;
};

struct Environment {
  Machine machine;
  int threads = 0;
  std::string isa;  // the vector instructions that oneDNN dispatches to
  std::string compiler;
  std::string flags;
  std::string git_sha;    // "": unknown
  std::string git_dirty;  // "yes" | "no" | "": unknown
  std::vector<std::string> argv;
  std::vector<Library> libraries;
  std::string read_utc;  // "2026-01-31T12:00:00Z"
  std::optional<GpuState> gpu;
  RunConditions during_run;  // of all rounds; n_rounds 0 where nothing was timed
};

Environment read_environment(const std::vector<std::string>& argv, int threads, std::span<const Disturbance> rounds);

/// What the system calls the device of a case, "cpu" or "cuda"; "" when it does not say.
std::string device_name(const std::string& device);

}  // namespace kvlab
