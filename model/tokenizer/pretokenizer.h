// Cuts text into the words inside which byte-level merging happens: patterns applied one after the other, by PCRE2.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

/// One compiled pattern. Matches and the gaps between them all become parts; nothing is dropped.
class SplitPattern {
 public:
  /// Throws InputError naming `where` when the pattern does not compile. `\s` and `\S` mean Unicode's White_Space.
  SplitPattern(std::string_view pattern, const std::string& where);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  /// Calls `part` with the parts of `text` (valid UTF-8) in order; none is empty.
  void split(std::string_view text, const std::function<void(std::string_view)>& part) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

class Pretokenizer {
 public:
  explicit Pretokenizer(std::vector<SplitPattern> patterns) : patterns_(std::move(patterns)) {}
  /// Each part of one pattern is cut further by the next, which sees nothing of its neighbours.
  void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  void split_from(std::size_t index, std::string_view text, const std::function<void(std::string_view)>& word) const;
  std::vector<SplitPattern> patterns_;
};

/// The pattern of GPT-2, also that of a ByteLevel step in tokenizer.json.
extern const std::string_view kGpt2Pattern;
/// Every character of Unicode class N by itself.
extern const std::string_view kSingleDigitPattern;
/// Runs of them.
extern const std::string_view kDigitRunPattern;

/// By the name in `tokenizer.ggml.pre`. Throws InputError naming it, `where` and the known ones.
Pretokenizer pretokenizer_by_name(std::string_view name, const std::string& where);

}  // namespace kvlab
