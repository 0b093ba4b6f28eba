// Runs the built program as a user would, and gives back what it said and how it ended.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kvlab::testing {

struct Finished {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A folder of its own that goes with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvlab-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

using Environment = std::vector<std::pair<const char*, const char*>>;

/// Runs `kvlab ARGUMENTS`, with one OpenMP thread unless `environment` says otherwise. `meanwhile` gets the process id
/// while it runs.
inline Finished kvlab(const std::vector<std::string>& arguments, const std::string& input = "",
                      const std::function<void(pid_t)>& meanwhile = {},
                      const Environment& environment = {{"OMP_NUM_THREADS", "1"}}) {
  const Folder folder;
  write_file(folder.path("in"), input);
  std::vector<std::string> words = {KVLAB_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string in = folder.path("in"), out = folder.path("out"), err = folder.path("err");
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name, value, 1);
    dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execv(KVLAB_BINARY, argv.data());
    _exit(127);
  }
  if (meanwhile) meanwhile(child);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

inline const std::string kGolden = std::string(KVLAB_SOURCE_DIR) + "/tests/golden/";
inline const std::string kLlama = kGolden + "llama-gqa";  // 6 query and 2 KV heads, context 512, no tokenizer

/// "1,2,3" of a golden model's prompt.
inline std::string joined(const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids) {
    if (!text.empty()) text.push_back(',');
    text.append(std::to_string(id));
  }
  return text;
}

}  // namespace kvlab::testing
