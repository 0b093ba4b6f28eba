// What a backend that lives in a module of its own shows to the program that loads it.
#pragma once

#include <memory>
#include <string>

#include "kernels/gemv_setting.h"
#include "kernels/operations.h"

namespace kvlab {

/// Calls of a loaded module. Program and module come from one build.
struct BackendModule {
  /// Why the device cannot be used; "" when it can.
  std::string (*obstacle)();
  /// The device in words, for people.
  std::string (*description)();
  /// Throws std::runtime_error with the obstacle.
  std::unique_ptr<Operations> (*make)(GemvSetting gemv);
};

/// The one symbol of a module: `extern "C" const kvlab::BackendModule kvlab_backend_module`.
constexpr const char* kBackendModuleSymbol = "kvlab_backend_module";

}  // namespace kvlab
