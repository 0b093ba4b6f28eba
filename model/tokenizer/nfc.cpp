// Unicode Standard Annex 15: decompose, order the combining marks, compose.
#include "model/tokenizer/nfc.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/nfc_tables.h"
#include "model/tokenizer/utf8.h"

namespace kvlab {
namespace {

// Hangul syllables are numbered leading x vowel x trailing.
constexpr char32_t kSyllableBase = 0xAC00;
constexpr char32_t kLeadBase = 0x1100;
constexpr char32_t kVowelBase = 0x1161;
constexpr char32_t kTrailBase = 0x11A7;  // one before the first: 0 is "no trailing consonant"
constexpr char32_t kLeads = 19;
constexpr char32_t kVowels = 21;
constexpr char32_t kTrails = 28;
constexpr char32_t kSyllables = kLeads * kVowels * kTrails;

// Below this every character is composed, stands alone and joins with none before it.
constexpr char32_t kFirstCombining = 0x300;

int combining_class(char32_t code) {
  const auto range = std::lower_bound(kCombiningRanges.begin(), kCombiningRanges.end(), code,
                                      [](const CombiningRange& r, char32_t value) { return r.last < value; });
  return range != kCombiningRanges.end() && range->first <= code ? range->combining_class : 0;
}

void decompose(char32_t code, std::vector<char32_t>& out) {
  if (code >= kSyllableBase && code < kSyllableBase + kSyllables) {
    const char32_t index = code - kSyllableBase;
    out.push_back(kLeadBase + index / (kVowels * kTrails));
    out.push_back(kVowelBase + index / kTrails % kVowels);
    if (index % kTrails != 0) out.push_back(kTrailBase + index % kTrails);
    return;
  }
  const auto entry = std::lower_bound(kDecompositions.begin(), kDecompositions.end(), code,
                                      [](const Decomposition& d, char32_t value) { return d.code < value; });
  if (entry == kDecompositions.end() || entry->code != code) {
    out.push_back(code);
    return;
  }
  decompose(entry->first, out);
  if (entry->second != 0) decompose(entry->second, out);
}

/// 0 when the two do not compose.
char32_t compose_pair(char32_t first, char32_t second) {
  if (first - kLeadBase < kLeads && second - kVowelBase < kVowels) {
    return kSyllableBase + ((first - kLeadBase) * kVowels + (second - kVowelBase)) * kTrails;
  }
  const bool open_syllable = first - kSyllableBase < kSyllables && (first - kSyllableBase) % kTrails == 0;
  if (open_syllable && second > kTrailBase && second < kTrailBase + kTrails) return first + (second - kTrailBase);
  static const std::unordered_map<std::uint64_t, char32_t> pairs = [] {
    std::unordered_map<std::uint64_t, char32_t> map;
    for (const Decomposition& d : kDecompositions) {
      if (d.composes) map.emplace(std::uint64_t{d.first} << 32 | d.second, d.code);
    }
    return map;
  }();
  const auto found = pairs.find(std::uint64_t{first} << 32 | second);
  return found == pairs.end() ? 0 : found->second;
}

struct Mark {
  char32_t code;
  int combining;
};

/// Sorts every run of combining marks by class, equal ones in their order.
std::vector<Mark> ordered(const std::vector<char32_t>& codes) {
  std::vector<Mark> marks;
  marks.reserve(codes.size());
  for (const char32_t code : codes) marks.push_back({code, code < kFirstCombining ? 0 : combining_class(code)});
  for (auto run = marks.begin(); run != marks.end();) {
    const auto end = std::find_if(run, marks.end(), [](const Mark& mark) { return mark.combining == 0; });
    std::stable_sort(run, end, [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
    run = end == marks.end() ? end : end + 1;
  }
  return marks;
}

/// Joins each mark to the last starter unless a mark of the same or a higher class, or another starter, is between.
std::string composed(std::vector<Mark> marks) {
  std::size_t n_kept = 0;
  std::size_t starter = 0;
  bool has_starter = false;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Mark mark = marks[i];
    if (has_starter) {
      const bool adjacent = n_kept == starter + 1;
      const int last = marks[n_kept - 1].combining;
      const bool blocked = !adjacent && (last == 0 || last >= mark.combining);
      const char32_t joined = blocked ? 0 : compose_pair(marks[starter].code, mark.code);
      if (joined != 0) {
        marks[starter].code = joined;
        continue;
      }
    }
    if (mark.combining == 0) {
      starter = n_kept;
      has_starter = true;
    }
    marks[n_kept++] = mark;
  }
  std::string text;
  for (std::size_t i = 0; i < n_kept; ++i) append_utf8(text, marks[i].code);
  return text;
}

}  // namespace

std::string compose_nfc(std::string_view text) {
  std::vector<char32_t> codes;
  bool is_composed = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_step(text, at).length;
    const char32_t code = utf8_code_point(text.substr(at, length));
    is_composed = is_composed && code < kFirstCombining;
    decompose(code, codes);
    at += length;
  }
  if (is_composed) return std::string(text);
  return composed(ordered(codes));
}

}  // namespace kvlab
