// Small sweeps for tests: files to run, and what they wrote.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/command_line/binary.h"

namespace kvlab::testing {

/// Three caches, a few tokens each.
inline std::string small_sweep(const Folder& folder, const std::string& rounds = R"({"min": 2, "max": 2})") {
  const std::string path = folder.path("sweep.json");
  write_file(path, fmt::format(R"({{"name": "small", "models": ["{}"],
      "axes": {{"cache": ["none", "contiguous", "paged"], "prompt_tokens": [4], "gen_tokens": [3]}}, "rounds": {}}})",
                               kLlama, rounds));
  return path;
}

/// An output folder with ceilings in it, so that a sweep with --resume does not spend seconds on measuring them.
inline std::string folder_with_ceilings(const Folder& folder, const std::string& name = "out") {
  const std::string path = folder.path(name);
  std::filesystem::create_directory(path);
  write_file(
      path + "/ceilings.json",
      R"({"read_bytes_per_s": 1e13, "copy_bytes_per_s": 1e13, "gemm_flops_per_s": {"f32": 1e15, "bf16": 1e15}})");
  return path;
}

inline nlohmann::json report_of(const std::string& folder) {
  return nlohmann::json::parse(read_file(folder + "/report.json"));
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Until `folder` holds so many rounds, half a minute at most.
inline void wait_for_lines(const std::string& folder, std::size_t count) {
  for (int i = 0; i < 3000 && lines_of(read_file(folder + "/results.jsonl")).size() < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace kvlab::testing
