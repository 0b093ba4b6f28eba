#include "tests/kernels/backend/loaded_backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels/backend_module.h"

namespace kvlab::test {
namespace {

std::unique_ptr<Operations> open_backend() {
  const char* chosen = std::getenv("KVLAB_TEST_BACKEND");
  const std::string file = chosen != nullptr ? chosen : KVLAB_EMULATED_MODULE;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto* module = static_cast<const BackendModule*>(dlsym(library, kBackendModuleSymbol));
  if (module == nullptr) throw std::runtime_error(file + " is not a backend of kvlab");
  return module->make(GemvSetting::own);
}

}  // namespace

Operations& backend() {
  static const std::unique_ptr<Operations> operations = open_backend();
  return *operations;
}

}  // namespace kvlab::test
