#include "kernels/cuda/choice_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace kvlab::cuda {

namespace {

constexpr const char* kHeader = "kvlab choices 1";

/// Held while a process adds to the file. Where locking fails, processes may each keep their own first value.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path)
      : descriptor_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

std::filesystem::path with_suffix(const std::filesystem::path& path, const std::string& suffix) {
  return path.string() + suffix;
}

}  // namespace

ChoiceFile::ChoiceFile(std::filesystem::path path, IsValue is_value, Tell tell)
    : path_(std::move(path)), is_value_(std::move(is_value)), tell_(std::move(tell)) {}

std::string ChoiceFile::find(const std::string& key) {
  if (!std::exchange(is_loaded_, true)) lines_ = read();
  const auto found = lines_.find(key);
  return found == lines_.end() ? "" : found->second;
}

std::string ChoiceFile::store(const std::string& key, const std::string& value) {
  if (!find(key).empty()) return find(key);
  if (path_.empty()) return lines_[key] = value;
  std::error_code ignored;  // what matters is whether the file can be written
  std::filesystem::create_directories(path_.parent_path(), ignored);
  const FileLock lock(with_suffix(path_, ".lock"));
  Lines stored = read();
  stored.insert(lines_.begin(), lines_.end());
  const bool is_new = stored.emplace(key, value).second;
  lines_ = std::move(stored);
  if (is_new) write(lines_);
  return lines_[key];
}

ChoiceFile::Lines ChoiceFile::read() {
  Lines lines;
  std::error_code failed;
  if (path_.empty() || !std::filesystem::exists(path_, failed)) return lines;
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line) || line != kHeader) {
    trouble("is not a file of choices, or cannot be read; they are made anew");
    return lines;
  }
  bool is_whole = true;
  while (std::getline(in, line)) {
    const std::size_t tab = line.find('\t');
    const bool is_pair = tab != std::string::npos && tab > 0 && !in.eof() && is_value_(line.substr(tab + 1));
    if (is_pair) lines.emplace(line.substr(0, tab), line.substr(tab + 1));
    is_whole = is_whole && is_pair;
  }
  if (!is_whole) trouble("has damaged lines; those choices are made anew");
  return lines;
}

void ChoiceFile::write(const Lines& lines) {
  const std::filesystem::path temporary = with_suffix(path_, '.' + std::to_string(getpid()) + ".tmp");
  std::ofstream out(temporary, std::ios::trunc);
  out << kHeader << '\n';
  for (const auto& [key, value] : lines) out << key << '\t' << value << '\n';
  out.close();
  std::error_code failed;
  if (out.good()) std::filesystem::rename(temporary, path_, failed);
  if (!out.good() || failed) {
    trouble("cannot be written; choices are measured again in the next process");
    std::filesystem::remove(temporary, failed);
  }
}

void ChoiceFile::trouble(const std::string& what) {
  if (!std::exchange(told_, true) && tell_) tell_(path_.string() + " " + what);
}

std::filesystem::path product_choices_path() {
  const auto folder_of = [](const char* variable) {
    const char* value = std::getenv(variable);
    const std::filesystem::path folder = value == nullptr ? "" : value;
    return folder.is_absolute() ? folder : std::filesystem::path();
  };
  std::filesystem::path cache = folder_of("XDG_CACHE_HOME");
  const std::filesystem::path home = folder_of("HOME");
  if (cache.empty() && !home.empty()) cache = home / ".cache";
  return cache.empty() ? cache : cache / "kvlab" / "product_choices.txt";
}

}  // namespace kvlab::cuda
