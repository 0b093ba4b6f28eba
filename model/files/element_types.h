// The element types that files may hold: how many bytes a block takes and how many elements it gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvlab {

struct ElementType {
  std::string_view name;
  std::int32_t gguf_number;  // -1: not a GGUF type
  std::int64_t block_elements;
  std::int64_t block_bytes;
};

/// Null when there is none.
const ElementType* find_element_type(std::string_view name);
const ElementType* find_gguf_type(std::uint32_t number);

}  // namespace kvlab
