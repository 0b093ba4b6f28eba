// How a kind of vocabulary writes running text down: which words it is cut into, how they are spelled, and what bytes a
// piece stands for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "model/tokenizer/pretokenizer.h"

namespace kvlab {

class TextForm {
 public:
  virtual ~TextForm() = default;
  /// Calls `word` with each word of a segment (text between special tokens, not empty) in the vocabulary's spelling.
  /// The view is valid during the call.
  virtual void words(std::string_view segment, const std::function<void(std::string_view)>& word) const = 0;
  /// The bytes that an ordinary piece stands for.
  virtual std::string bytes(std::string_view piece) const = 0;
  /// The bytes of a user-defined piece.
  virtual std::string user_defined_bytes(std::string_view piece) const = 0;
  /// Every segment gets a space in front that the text does not have.
  virtual bool dummy_space() const = 0;
};

/// Words by patterns, spelled in the byte alphabet. `to_nfc`: text is composed (Unicode NFC) first.
std::unique_ptr<TextForm> byte_level_form(Pretokenizer pretokenizer, bool to_nfc);

/// A segment is one word, spaces spelled "▁", with a dummy space in front where asked. Text that itself holds "▁" comes
/// back with spaces: the kind cannot tell them apart.
std::unique_ptr<TextForm> space_mark_form(bool dummy_space);

}  // namespace kvlab
