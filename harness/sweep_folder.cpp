// Checks before the work what would otherwise fail after it.
#include "harness/sweep_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "harness/ceilings_json.h"
#include "harness/output_file.h"
#include "harness/report.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

namespace fs = std::filesystem;

std::string ceilings_path(const std::string& folder) { return (fs::path(folder) / "ceilings.json").string(); }

}  // namespace

SweepFolder::SweepFolder(std::string path, bool resume) : path_(std::move(path)) {
  std::error_code error;
  if (fs::exists(path_) && !fs::is_directory(path_)) throw InputError(fmt::format("--out: {} is not a folder", path_));
  if (fs::exists(path_) && !fs::is_empty(path_, error) && !resume) {
    throw InputError(fmt::format("--out: {} is not empty; use --resume to go on there, or another folder", path_));
  }
  fs::create_directories(path_, error);
  if (error) throw InputError(fmt::format("--out: cannot make {}: {}", path_, error.message()));
  OutputFile("--out", report_path());  // refuses a folder that cannot be written
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    throw InputError(fmt::format("--out: another sweep is writing {}; wait for it, or use another folder", path_));
  }
}

SweepFolder::~SweepFolder() {
  if (lock_ >= 0) close(lock_);
}

std::string SweepFolder::report_path() const { return (fs::path(path_) / "report.json").string(); }

std::optional<Ceilings> SweepFolder::ceilings() const { return stored_ceilings(path_); }

void SweepFolder::store_ceilings(const Ceilings& ceilings) {
  write_json_file(ceilings_path(path_), ceilings_json(ceilings));
}

std::optional<Ceilings> stored_ceilings(const std::string& folder) {
  const std::string path = ceilings_path(folder);
  if (!fs::exists(path)) return std::nullopt;
  try {
    return ceilings_from_json(nlohmann::json::parse(read_text_file("--out", path)));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: {}; delete it to measure again", path, error.what()));
  }
}

}  // namespace kvlab
