// Writes a Hugging Face folder as a GGUF image the way the public converter does: names, transposition, row order.
#pragma once

#include <string>

#include "tests/files/test_files.h"

namespace kvlab::test {

/// Rows of Q and K: as the converter leaves them (interleaved RoPE pairs for llama), or wrongly as in the folder.
enum class RowOrder { converted, untouched };

GgufImage gguf_image_of_folder(const std::string& folder, RowOrder order);

inline std::string gguf_of_folder(const std::string& folder, RowOrder order) {
  return gguf_image_of_folder(folder, order).bytes();
}

}  // namespace kvlab::test
