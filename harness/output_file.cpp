// Files written beside their target and renamed; standard output checked.
#include "harness/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "kernels/error.h"

namespace kvlab {

OutputFile::OutputFile(std::string flag, std::string path) : flag_(std::move(flag)), path_(std::move(path)) {
  if (path_.empty() || is_standard_output()) return;
  if (std::filesystem::is_directory(path_)) throw InputError(fmt::format("{}: {} is a folder", flag_, path_));
  const bool special = std::filesystem::exists(path_) && !std::filesystem::is_regular_file(path_);
  temporary_ = special ? path_ : fmt::format("{}.{}.tmp", path_, getpid());
  errno = 0;
  if (!std::ofstream(temporary_, std::ios::app)) {
    const std::string why = std::strerror(errno);
    throw InputError(fmt::format("{}: cannot write {}: {}", flag_, path_, why));
  }
}

OutputFile::~OutputFile() {
  if (!temporary_.empty() && temporary_ != path_) std::remove(temporary_.c_str());
}

void OutputFile::write(std::string_view text) {
  if (!wanted()) return;
  if (is_standard_output()) return write_standard_output(text);
  std::ofstream file(temporary_, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: writing {} failed", flag_, path_));
  if (temporary_ != path_) std::filesystem::rename(temporary_, path_);
  temporary_.clear();
}

void OutputFile::write_json(const nlohmann::ordered_json& json) {
  if (wanted()) write(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void write_standard_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
  }
}

std::string read_text_file(std::string_view flag, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw InputError(fmt::format("{}: {} is a folder", flag, path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: cannot read {}: {}", flag, path, std::strerror(errno)));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw InputError(fmt::format("{}: reading {} failed", flag, path));
  return text.str();
}

}  // namespace kvlab
