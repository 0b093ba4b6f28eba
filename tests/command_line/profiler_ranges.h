// Runs the program under a profiler of our own (nvtx_log/) and gives back the ranges that it saw.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/command_line/binary.h"

namespace kvlab::testing {

struct SeenRanges {
  std::vector<std::string> paths;  // "prefill 5 tokens/layer 0/append", in the order in which ranges began
  bool balanced = true;            // every range ended, and none that had not begun
  Finished finished;

  /// Names of the ranges right below `path` ("" : the outermost), in order.
  std::vector<std::string> below(const std::string& path) const {
    const std::string prefix = path.empty() ? "" : path + "/";
    std::vector<std::string> names;
    for (const std::string& candidate : paths) {
      if (!candidate.starts_with(prefix)) continue;
      const std::string name = candidate.substr(prefix.size());
      if (name.find('/') == std::string::npos) names.push_back(name);
    }
    return names;
  }

  std::int64_t count(const std::string& path) const { return std::count(paths.begin(), paths.end(), path); }
};

#ifdef KVLAB_NVTX_LOG_LIBRARY
inline SeenRanges profiled_kvlab(const std::vector<std::string>& arguments) {
  const Folder folder;
  const std::string log = folder.path("ranges");
  SeenRanges seen;
  seen.finished = kvlab(
      arguments, "", {},
      {{"OMP_NUM_THREADS", "1"}, {"NVTX_INJECTION64_PATH", KVLAB_NVTX_LOG_LIBRARY}, {"KVLAB_NVTX_LOG", log.c_str()}});
  std::istringstream lines(read_file(log));
  std::vector<std::string> open;
  for (std::string line; std::getline(lines, line);) {
    const std::string domain = "kvlab";
    if (line == "-" + domain) {
      if (open.empty()) {
        seen.balanced = false;
      } else {
        open.pop_back();
      }
      continue;
    }
    const std::string begin = "+" + domain + ":";
    if (!line.starts_with(begin)) continue;
    open.push_back((open.empty() ? "" : open.back() + "/") + line.substr(begin.size()));
    seen.paths.push_back(open.back());
  }
  seen.balanced = seen.balanced && open.empty();
  return seen;
}
#endif

}  // namespace kvlab::testing
