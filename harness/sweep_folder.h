// The folder a sweep writes: who may write it, and what lies in it beside the rounds (harness/round_store.h).
#pragma once

#include <optional>
#include <string>

#include "harness/ceilings.h"

namespace kvlab {

class SweepFolder {
 public:
  /// Makes the folder and holds it until destroyed: a second sweep is refused. Throws InputError when it holds
  /// something and `resume` is false, and when it cannot be made or written.
  SweepFolder(std::string path, bool resume);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string report_path() const;

  /// Of the first run in this folder: rounds of several days are divided by the same numbers. Throws InputError.
  std::optional<Ceilings> ceilings() const;
  void store_ceilings(const Ceilings& ceilings);

 private:
  std::string path_;
  int lock_ = -1;
};

/// DIR/ceilings.json; none where there is no such file. Throws InputError naming it when it is broken.
std::optional<Ceilings> stored_ceilings(const std::string& folder);

}  // namespace kvlab
