// Bytes wait here until they are whole characters and can no longer begin a stop string.
#include "model/sampling/text_stream.h"

#include <algorithm>

#include "kernels/error.h"
#include "model/tokenizer/utf8.h"

namespace kvlab {
namespace {

/// Where the stop string that is complete first begins: of two that end at the same byte, the longer.
std::optional<std::size_t> find_stop(std::string_view text, const std::vector<std::string>& stops) {
  std::optional<std::size_t> first_begin;
  std::size_t first_end = 0;
  for (const std::string& stop : stops) {
    const std::size_t begin = text.find(stop);
    if (begin == std::string_view::npos) continue;
    const std::size_t end = begin + stop.size();
    if (first_begin && (end > first_end || (end == first_end && begin >= *first_begin))) continue;
    first_begin = begin;
    first_end = end;
  }
  return first_begin;
}

/// How much of `text` can be shown because no stop string may begin in it.
std::size_t before_possible_stop(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t safe = text.size();
  for (const std::string& stop : stops) {
    for (std::size_t length = std::min(stop.size() - 1, text.size()); length > 0; --length) {
      if (!text.ends_with(std::string_view(stop).substr(0, length))) continue;
      safe = std::min(safe, text.size() - length);
      break;
    }
  }
  return safe;
}

struct Release {
  std::string text;
  std::size_t n_bytes;  // of the input that it stands for
};

/// Characters that begin before `limit`. Bytes that are no character become U+FFFD; one that `bytes` cut off waits,
/// unless this is the end.
Release release_characters(std::string_view bytes, std::size_t limit, bool at_end) {
  Release release{"", 0};
  while (release.n_bytes < limit) {
    const Utf8Step step = utf8_step(bytes, release.n_bytes);
    if (step.kind == Utf8Kind::incomplete && !at_end) break;
    release.text += step.kind == Utf8Kind::whole ? bytes.substr(release.n_bytes, step.length) : kReplacementCharacter;
    release.n_bytes += step.length;
  }
  return release;
}

}  // namespace

void TextStream::set_stops(std::vector<std::string> stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) throw InputError("a stop string is empty: give the text to stop at");
    require_utf8(stop);
  }
  stops_ = std::move(stops);
}

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return "";
  pending_ += bytes;
  const auto stop = find_stop(pending_, stops_);
  if (stop) {
    stopped_ = true;
    pending_.resize(*stop);
    return finish();
  }
  const Release release = release_characters(pending_, before_possible_stop(pending_, stops_), false);
  pending_.erase(0, release.n_bytes);
  text_ += release.text;
  return release.text;
}

std::string TextStream::finish() {
  const Release release = release_characters(pending_, pending_.size(), true);
  pending_.clear();
  text_ += release.text;
  return release.text;
}

}  // namespace kvlab
