// Turns stored elements, quantised or not, into f32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/files/gguf.h"

namespace kvlab {

/// Bytes of `n_elements` stored as `type`; nullopt when the type is unknown, the count is no whole number of blocks, or
/// the product overflows.
std::optional<std::int64_t> tensor_bytes(std::string_view type, std::int64_t n_elements);

/// Whether `read_values` converts the type.
bool can_read_values(std::string_view type);

/// Writes elements [begin, begin + out.size()) of the flattened tensor as f32. `begin` and the size are whole blocks.
/// Throws InputError naming the tensor when its type cannot be converted.
void read_values(const TensorInfo& tensor, std::int64_t begin, std::span<float> out);

}  // namespace kvlab
