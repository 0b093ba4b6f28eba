// Writes GGUF files that hold metadata only, for vocabularies made in a test.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

class GgufWriter {
 public:
  void put(std::string_view key, bool value) {
    begin(key, 7);
    number(static_cast<std::uint8_t>(value));
  }
  void put(std::string_view key, std::uint32_t value) {
    begin(key, 4);
    number(value);
  }
  void put(std::string_view key, const char* value) {
    begin(key, 8);
    string(value);
  }
  void put(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, 8, values.size());
    for (const std::string& value : values) string(value);
  }
  void put(std::string_view key, const std::vector<std::int32_t>& values) {
    begin_array(key, 5, values.size());
    for (const std::int32_t value : values) number(value);
  }
  void put(std::string_view key, const std::vector<float>& values) {
    begin_array(key, 6, values.size());
    for (const float value : values) number(value);
  }

  void write(const std::string& path) const {
    GgufWriter file;
    file.bytes_ = "GGUF";
    file.number(std::uint32_t{3});  // version
    file.number(std::uint64_t{0});  // tensors
    file.number(n_keys_);
    std::ofstream(path, std::ios::binary) << file.bytes_ << bytes_;
  }

 private:
  void begin(std::string_view key, std::uint32_t type) {
    ++n_keys_;
    string(key);
    number(type);
  }
  void begin_array(std::string_view key, std::uint32_t type, std::size_t size) {
    begin(key, 9);
    number(type);
    number(static_cast<std::uint64_t>(size));
  }
  void string(std::string_view value) {
    number(static_cast<std::uint64_t>(value.size()));
    bytes_ += value;
  }
  template <typename T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string bytes_;
  std::uint64_t n_keys_ = 0;
};

}  // namespace kvlab
