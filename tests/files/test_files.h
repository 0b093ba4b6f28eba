// Builds small files for the tests: temporary folders, GGUF and safetensors images, valid or broken on purpose.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"

namespace kvlab::test {

/// A folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  /// Writes a file into the folder and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

std::string read_bytes(const std::string& path);

/// The little-endian bytes of a number.
template <typename T>
std::string bytes_of(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

template <typename T>
std::string bytes_of_all(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// A GGUF string: its length and its bytes.
std::string gguf_string(const std::string& text);

/// Type numbers of GGUF metadata.
enum GgufNumber : std::uint32_t { kU8 = 0, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kList = 9, kU64 = 10 };

/// A GGUF file that is put together piece by piece; any count can be set to something wrong.
struct GgufImage {
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;  // innermost first, as in the file
    std::uint32_t type = 0;
    std::string data;
    std::optional<std::uint32_t> n_dims;  // instead of the true number
    std::optional<std::uint64_t> offset;  // instead of the true place
  };

  std::uint32_t version = 3;
  std::optional<std::uint64_t> n_tensors;
  std::optional<std::uint64_t> n_keys;
  std::vector<std::string> keys;
  std::vector<Tensor> tensors;

  /// `value` is the encoded value.
  GgufImage& key(const std::string& name, std::uint32_t type, const std::string& value);
  GgufImage& u32(const std::string& name, std::uint32_t value) { return key(name, kU32, bytes_of(value)); }
  GgufImage& f32(const std::string& name, float value) { return key(name, kF32, bytes_of(value)); }
  GgufImage& text(const std::string& name, const std::string& value) { return key(name, kString, gguf_string(value)); }
  GgufImage& list(const std::string& name, std::uint32_t type, std::uint64_t count, const std::string& elements) {
    return key(name, kList, bytes_of(type) + bytes_of(count) + elements);
  }
  GgufImage& tensor(const std::string& name, std::vector<std::uint64_t> dims, const std::vector<float>& values) {
    tensors.push_back({name, std::move(dims), 0, bytes_of_all(values), {}, {}});
    return *this;
  }
  std::string bytes() const;
};

/// Header length, header, data.
std::string safetensors_image(const std::string& header, const std::string& data);

/// What an InputError says; fails the test when `action` throws nothing.
template <typename Action>
std::string input_error(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no InputError was thrown";
  return "";
}

inline std::string golden_folder(const std::string& name) {
  return std::string(KVLAB_SOURCE_DIR) + "/tests/golden/" + name;
}

}  // namespace kvlab::test
