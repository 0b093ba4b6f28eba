// Decodes blocks of stored elements to f32. Each value is computed in f32 in the order that the format's own
// description gives, so that it equals the f32 of any other faithful reader bit for bit.
#include "model/files/tensor_values.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "kernels/dtype.h"
#include "kernels/error.h"
#include "model/files/byte_reader.h"
#include "model/files/element_types.h"

namespace kvlab {
namespace {

using Byte = std::uint8_t;

template <typename T>
T load(const Byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// IEEE binary16 to binary32, exact; a NaN keeps its payload.
float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t widened = exponent == 0x1fU ? 0xffU : exponent + (127U - 15U);
  return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
}

float load_half(const Byte* at) { return half_to_float(load<std::uint16_t>(at)); }

void decode_f32(const Byte* block, float* out) { *out = load<float>(block); }
void decode_f16(const Byte* block, float* out) { *out = load_half(block); }
void decode_bf16(const Byte* block, float* out) { *out = bf16_to_float({load<std::uint16_t>(block)}); }

// Blocks of 32: a scale d (f16), in some types a minimum m (f16), then the quants. Byte i of the packed nibbles holds
// element i in its low half and element i + 16 in its high half.

void decode_q8_0(const Byte* block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * d;
}

void decode_q4_0(const Byte* block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 16; ++i) {
    const int packed = block[2 + i];
    out[i] = d * static_cast<float>((packed & 0xf) - 8);
    out[i + 16] = d * static_cast<float>((packed >> 4) - 8);
  }
}

void decode_q4_1(const Byte* block, float* out) {
  const float d = load_half(block);
  const float m = load_half(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int packed = block[4 + i];
    out[i] = d * static_cast<float>(packed & 0xf) + m;
    out[i + 16] = d * static_cast<float>(packed >> 4) + m;
  }
}

/// The 5-bit quant of element `i`: four bits from the nibbles, the fifth from bit i of `high`.
int five_bit_quant(const Byte* nibbles, std::uint32_t high, int i) {
  const int low = i < 16 ? nibbles[i] & 0xf : nibbles[i - 16] >> 4;
  return low | static_cast<int>(((high >> i) & 1U) << 4);
}

void decode_q5_0(const Byte* block, float* out) {
  const float d = load_half(block);
  const auto high = load<std::uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bit_quant(block + 6, high, i) - 16);
}

void decode_q5_1(const Byte* block, float* out) {
  const float d = load_half(block);
  const float m = load_half(block + 2);
  const auto high = load<std::uint32_t>(block + 4);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bit_quant(block + 8, high, i)) + m;
}

// Blocks of 256 in eight groups of 32, each with a 6-bit scale and a 6-bit minimum of its own, both scaled by an f16.

struct GroupScale {
  float scale;
  float minimum;
};

/// Twelve bytes hold 8 scales and 8 minima of 6 bits: groups 0-3 in the low 6 bits of bytes 0-3 (scales) and 4-7
/// (minima); groups 4-7 in the nibbles of bytes 8-11 (scale low, minimum high), with their two upper bits in the upper
/// bits of bytes 0-3 and 4-7.
GroupScale group_scale(const Byte* packed, int group, float d, float d_min) {
  int scale = 0;
  int minimum = 0;
  if (group < 4) {
    scale = packed[group] & 0x3f;
    minimum = packed[group + 4] & 0x3f;
  } else {
    scale = (packed[group + 4] & 0xf) | ((packed[group - 4] >> 6) << 4);
    minimum = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4);
  }
  return {d * static_cast<float>(scale), d_min * static_cast<float>(minimum)};
}

/// Groups 2p and 2p + 1 share 32 bytes of nibbles: the even group the low halves, the odd one the high halves.
int group_nibble(const Byte* nibbles, int group, int i) {
  const int packed = nibbles[(group / 2) * 32 + i];
  return group % 2 == 0 ? packed & 0xf : packed >> 4;
}

void decode_q4_k(const Byte* block, float* out) {
  const float d = load_half(block);
  const float d_min = load_half(block + 2);
  for (int group = 0; group < 8; ++group) {
    const GroupScale s = group_scale(block + 4, group, d, d_min);
    for (int i = 0; i < 32; ++i) {
      out[group * 32 + i] = s.scale * static_cast<float>(group_nibble(block + 16, group, i)) - s.minimum;
    }
  }
}

/// As Q4_K, with a fifth bit: bit `group` of byte i of `high`.
void decode_q5_k(const Byte* block, float* out) {
  const float d = load_half(block);
  const float d_min = load_half(block + 2);
  const Byte* high = block + 16;
  for (int group = 0; group < 8; ++group) {
    const GroupScale s = group_scale(block + 4, group, d, d_min);
    for (int i = 0; i < 32; ++i) {
      const int quant = group_nibble(block + 48, group, i) | (((high[i] >> group) & 1) << 4);
      out[group * 32 + i] = s.scale * static_cast<float>(quant) - s.minimum;
    }
  }
}

/// 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales (one for 16 elements), an f16. Each half of 128
/// elements has 64 low bytes and 32 upper ones: quarter q takes the low bytes 32 (q % 2) + i, their upper halves from
/// quarter 2 on, and bits 2q and 2q + 1 of upper byte i.
void decode_q6_k(const Byte* block, float* out) {
  const float d = load_half(block + 208);
  for (int half = 0; half < 2; ++half) {
    const Byte* low = block + half * 64;
    const Byte* high = block + 128 + half * 32;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; ++i) {
        const int element = half * 128 + quarter * 32 + i;
        const int packed = low[(quarter % 2) * 32 + i];
        const int nibble = quarter < 2 ? packed & 0xf : packed >> 4;
        const int quant = (nibble | (((high[i] >> (2 * quarter)) & 3) << 4)) - 32;
        const float scale = d * static_cast<float>(static_cast<std::int8_t>(block[192 + element / 16]));
        out[element] = scale * static_cast<float>(quant);
      }
    }
  }
}

using DecodeBlocks = void (*)(const Byte* blocks, std::int64_t n_blocks, float* out);

template <auto decode_block, std::int64_t block_bytes, std::int64_t block_elements>
void decode_blocks(const Byte* blocks, std::int64_t n_blocks, float* out) {
  for (std::int64_t i = 0; i < n_blocks; ++i) decode_block(blocks + i * block_bytes, out + i * block_elements);
}

struct Decoder {
  std::string_view type;
  DecodeBlocks decode;
};

constexpr std::array kDecoders = {
    Decoder{"F32", decode_blocks<decode_f32, 4, 1>},       Decoder{"F16", decode_blocks<decode_f16, 2, 1>},
    Decoder{"BF16", decode_blocks<decode_bf16, 2, 1>},     Decoder{"Q8_0", decode_blocks<decode_q8_0, 34, 32>},
    Decoder{"Q4_0", decode_blocks<decode_q4_0, 18, 32>},   Decoder{"Q4_1", decode_blocks<decode_q4_1, 20, 32>},
    Decoder{"Q5_0", decode_blocks<decode_q5_0, 22, 32>},   Decoder{"Q5_1", decode_blocks<decode_q5_1, 24, 32>},
    Decoder{"Q4_K", decode_blocks<decode_q4_k, 144, 256>}, Decoder{"Q5_K", decode_blocks<decode_q5_k, 176, 256>},
    Decoder{"Q6_K", decode_blocks<decode_q6_k, 210, 256>},
};

const Decoder* find_decoder(std::string_view type) {
  for (const Decoder& decoder : kDecoders) {
    if (decoder.type == type) return &decoder;
  }
  return nullptr;
}

std::string decoder_names() {
  std::string names;
  for (const Decoder& decoder : kDecoders) names += fmt::format("{}{}", names.empty() ? "" : ", ", decoder.type);
  return names;
}

}  // namespace

std::optional<std::int64_t> tensor_bytes(std::string_view type, std::int64_t n_elements) {
  const ElementType* element = find_element_type(type);
  if (element == nullptr || n_elements < 0 || n_elements % element->block_elements != 0) return std::nullopt;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(n_elements / element->block_elements, element->block_bytes, &bytes)) return std::nullopt;
  return bytes;
}

bool can_read_values(std::string_view type) { return find_decoder(type) != nullptr; }

void read_values(const TensorInfo& tensor, std::int64_t begin, std::span<float> out) {
  const Decoder* decoder = find_decoder(tensor.type);
  if (decoder == nullptr) {
    throw InputError(fmt::format("tensor {} has type {}, which cannot be converted; convertible types: {}",
                                 in_quotes(tensor.name), tensor.type, decoder_names()));
  }
  const auto count = static_cast<std::int64_t>(out.size());
  const auto first_byte = tensor_bytes(tensor.type, begin);
  const auto n_bytes = tensor_bytes(tensor.type, count);
  const auto stored = static_cast<std::int64_t>(tensor.data.size());
  if (!first_byte || !n_bytes || *first_byte > stored || *n_bytes > stored - *first_byte) {
    throw InputError(fmt::format("tensor {} ({}, {} bytes): {} elements from {} on are outside it or cut a block",
                                 in_quotes(tensor.name), tensor.type, stored, count, begin));
  }
  const auto* blocks = reinterpret_cast<const Byte*>(tensor.data.data()) + *first_byte;
  decoder->decode(blocks, count / find_element_type(tensor.type)->block_elements, out.data());
}

}  // namespace kvlab
