// The published patterns, and PCRE2 with UTF, UCP and JIT to run them.
#include "model/tokenizer/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pcre2.h>

#include <array>
#include <stdexcept>

#include "kernels/error.h"

namespace kvlab {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kSingleDigitPattern = R"(\p{N})";
const std::string_view kDigitRunPattern = R"(\p{N}+)";

namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct NamedPatterns {
  std::string_view name;
  std::vector<std::string_view> patterns;
};

const std::vector<NamedPatterns>& named_patterns() {
  static const std::vector<NamedPatterns> list = {
      {"default", {kGpt2Pattern}},
      {"gpt-2", {kGpt2Pattern}},
      {"llama-bpe", {kLlama3Pattern}},
      {"llama3", {kLlama3Pattern}},
      {"llama-v3", {kLlama3Pattern}},
      {"qwen2", {kQwen2Pattern}},
      {"smollm", {kSingleDigitPattern, kGpt2Pattern}},
  };
  return list;
}

/// PCRE2's own `\s` also takes U+180E, which is no white space any more: the class is spelled out instead.
std::string with_unicode_white_space(std::string_view pattern) {
  constexpr std::string_view kMembers = R"(\t-\r\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char escaped = c == '\\' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (escaped == 's' && in_class) {
      out += kMembers;
    } else if ((escaped == 's' || escaped == 'S') && !in_class) {
      out += fmt::format("[{}{}]", escaped == 'S' ? "^" : "", kMembers);
    } else {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
      if (escaped != '\0') out += escaped;
    }
    if (escaped != '\0') ++i;
  }
  return out;
}

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { pcre2_code_free(code); }
};

SplitPattern::SplitPattern(std::string_view pattern, const std::string& where)
    : compiled_(std::make_unique<Compiled>()) {
  const std::string spelled = with_unicode_white_space(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (compiled_->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message = {};
    pcre2_get_error_message(error, message.data(), message.size());
    throw InputError(fmt::format("{}: the pattern '{}' does not compile: {}", where, pattern,
                                 reinterpret_cast<const char*>(message.data())));
  }
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);  // without JIT support matching only gets slower
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

void SplitPattern::split(std::string_view text, const std::function<void(std::string_view)>& part) const {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> match(pcre2_match_data_create(1, nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0;
  while (done < text.size()) {
    const int result = pcre2_match(compiled_->code, subject, text.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                                   match.get(), nullptr);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      throw std::runtime_error(fmt::format("pre-tokenising failed at byte {}: PCRE2 error {}", done, result));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    if (range[0] > done) part(text.substr(done, range[0] - done));
    part(text.substr(range[0], range[1] - range[0]));
    done = range[1];
  }
  if (done < text.size()) part(text.substr(done));
}

void Pretokenizer::split(std::string_view text, const std::function<void(std::string_view)>& word) const {
  split_from(0, text, word);
}

void Pretokenizer::split_from(std::size_t index, std::string_view text,
                              const std::function<void(std::string_view)>& word) const {
  if (index == patterns_.size()) {
    word(text);
    return;
  }
  patterns_[index].split(text, [&](std::string_view part) { split_from(index + 1, part, word); });
}

Pretokenizer pretokenizer_by_name(std::string_view name, const std::string& where) {
  std::vector<std::string_view> known;
  for (const NamedPatterns& entry : named_patterns()) {
    known.push_back(entry.name);
    if (entry.name != name) continue;
    std::vector<SplitPattern> patterns;
    for (const std::string_view pattern : entry.patterns) patterns.emplace_back(pattern, where);
    return Pretokenizer(std::move(patterns));
  }
  throw InputError(
      fmt::format("{}: tokenizer.ggml.pre '{}' is unknown; known are {}", where, name, fmt::join(known, ", ")));
}

}  // namespace kvlab
