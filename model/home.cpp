#include "model/home.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "kernels/error.h"

namespace kvlab {
namespace fs = std::filesystem;

std::string kvlab_home() {
  const char* chosen = std::getenv("KVLAB_HOME");
  if (chosen != nullptr && *chosen != '\0') {
    if (fs::is_directory(fs::path(chosen) / "configs")) return chosen;
    throw InputError(fmt::format("KVLAB_HOME={}: has no folder configs/", chosen));
  }
  const fs::path source_root = KVLAB_SOURCE_ROOT;
  if (fs::is_directory(source_root / "configs")) return source_root.string();
  std::error_code ignored;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path() / "share" / "kvlab";
  if (fs::is_directory(prefix / "configs")) return prefix.string();
  throw InputError(fmt::format("found no configs/ folder in {} or {}: set KVLAB_HOME to the folder that holds it",
                               source_root.string(), prefix.string()));
}

}  // namespace kvlab
