// Reads safetensors by memory map: one file, or the shards of an index, every header checked before use.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/gguf.h"

namespace kvlab {

class SafetensorsFolder {
 public:
  /// Opens `folder`/model.safetensors or the shards of `folder`/model.safetensors.index.json. Throws InputError naming
  /// the file and the fault.
  static std::unique_ptr<SafetensorsFolder> open(const std::string& folder);
  ~SafetensorsFolder();

  const std::vector<TensorInfo>& tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;

 private:
  struct State;
  explicit SafetensorsFolder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvlab
