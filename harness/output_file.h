// Where a command's result goes: a file that appears whole or not at all, or standard output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvlab {

/// Takes the target at the start of a command, so that an unwritable path is refused before the work and not after it.
class OutputFile {
 public:
  /// `path`: "" for nowhere, "-" for standard output. Throws InputError naming `flag` and path when it cannot be
  /// written.
  OutputFile(std::string flag, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool wanted() const { return !path_.empty(); }
  bool is_standard_output() const { return path_ == "-"; }
  /// Writes it all; the file takes its name only when it is complete. Throws std::runtime_error when the disk is full.
  void write(std::string_view text);
  /// Strict JSON: NaN becomes null, bytes that are no UTF-8 become U+FFFD.
  void write_json(const nlohmann::ordered_json& json);

 private:
  std::string flag_;
  std::string path_;
  std::string temporary_;  // written first; path_ itself for devices and pipes, which cannot be renamed over
};

/// Writes to standard output and fails loudly when it is full or closed.
void write_standard_output(std::string_view text);

/// The whole file, byte for byte. Throws InputError naming `flag` and path.
std::string read_text_file(std::string_view flag, const std::string& path);

}  // namespace kvlab
