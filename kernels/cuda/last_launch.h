// Which kernel the host launched last. A kernel that fails is reported by whatever call comes later, which knows
// nothing of it.
#pragma once

namespace kvlab::cuda {

/// Null before the first launch. Kernels of other libraries are not noted; those of a graph are as they are captured.
inline const char*& last_launched_kernel() {
  static const char* name = nullptr;
  return name;
}

}  // namespace kvlab::cuda
