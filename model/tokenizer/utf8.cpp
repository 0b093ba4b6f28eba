// UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing above U+10FFFF.
#include "model/tokenizer/utf8.h"

#include <fmt/format.h>

#include "kernels/error.h"

namespace kvlab {
namespace {

std::size_t length_from_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = length_from_lead(lead);
  if (length == 0) return {Utf8Kind::invalid, 1};
  // The second byte's range shuts out overlong forms, surrogates and what lies above U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size()) return {Utf8Kind::incomplete, i};
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if (byte < low || byte > high) return {Utf8Kind::invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::whole, length};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (step.kind != Utf8Kind::whole) return at;
    at += step.length;
  }
  return std::nullopt;
}

void require_utf8(std::string_view text) {
  const auto offset = find_invalid_utf8(text);
  if (!offset) return;
  throw InputError(fmt::format("the text is not UTF-8: byte {:#04x} at offset {} begins no character; convert it first",
                               static_cast<unsigned char>(text[*offset]), *offset));
}

char32_t utf8_code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return lead;
  char32_t value = lead & (0x7FU >> character.size());
  for (const char byte : character.substr(1)) value = (value << 6) | (static_cast<unsigned char>(byte) & 0x3FU);
  return value;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  const auto continuation = [&](int shift) { put(0x80U | ((code_point >> shift) & 0x3FU)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | (code_point >> 6));
    continuation(0);
  } else if (code_point < 0x10000) {
    put(0xE0U | (code_point >> 12));
    continuation(6);
    continuation(0);
  } else {
    put(0xF0U | (code_point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace kvlab
