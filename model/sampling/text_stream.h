// Turns a stream of token bytes into text that may be shown: whole UTF-8 characters only, and nothing that may still
// become part of a stop string.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

class TextStream {
 public:
  /// The list may change between tokens; empty strings are refused (InputError). It applies to text not yet released.
  void set_stops(std::vector<std::string> stops);

  /// Adds one token's bytes and returns what may be shown now. After a stop string was found, returns the text before
  /// it (of two that end at the same byte, the one that begins first) and `stopped()` is true.
  std::string push(std::string_view bytes);
  /// The end: releases what was held back; a character cut at the end becomes U+FFFD.
  std::string finish();

  bool stopped() const { return stopped_; }
  /// All that was released so far.
  const std::string& text() const { return text_; }

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  std::string text_;
  bool stopped_ = false;
};

}  // namespace kvlab
