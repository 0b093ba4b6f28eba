// Reads a GGUF file by memory map: typed metadata and tensor descriptions, every count and offset checked before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

/// A tensor in a mapped file. `shape` is row-major, outermost first ([rows, cols]), whatever the file's own order.
struct TensorInfo {
  std::string name;
  std::string
      type;  // "F32" "F16" "BF16" "Q8_0" "Q4_0" "Q4_1" "Q5_0" "Q5_1" "Q4_K" "Q5_K" "Q6_K", or another GGUF type's name
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  /// Throws InputError naming the file and the place of the fault.
  static std::unique_ptr<GgufFile> open(const std::string& path);
  ~GgufFile();

  const std::string& path() const;

  bool has(std::string_view key) const;
  /// Metadata by key. Each throws InputError naming file and key when the key is missing or of another type; integers
  /// of any width convert when they fit, booleans and floats only as themselves (f32 and f64 are both floats).
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;  // float or integer
  bool boolean(std::string_view key) const;
  std::string_view string(std::string_view key) const;
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;

  const std::vector<TensorInfo>& tensors() const;
  /// Null when there is none of that name.
  const TensorInfo* find_tensor(std::string_view name) const;

 private:
  struct State;
  explicit GgufFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvlab
