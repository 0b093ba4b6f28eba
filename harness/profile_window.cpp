#include "harness/profile_window.h"

#include <fmt/format.h>

#include "harness/numbers.h"
#include "kernels/error.h"

namespace kvlab {

ProfileWindow parse_profile_window(std::string_view text) {
  constexpr std::string_view kDecode = "decode:";
  if (text == "prefill") return {0, 0};
  const std::size_t dots = text.find("..");
  if (!text.starts_with(kDecode) || dots == std::string_view::npos) {
    throw InputError(fmt::format(
        "--profile '{}': allowed are prefill, and decode:A..B for the decode steps A to B, the first of which is 1",
        text));
  }
  const std::string_view first = text.substr(kDecode.size(), dots - kDecode.size());
  const std::int64_t from = parse_integer("--profile decode:A..B, A", first, 1, kMaxCount);
  return {from, parse_integer("--profile decode:A..B, B", text.substr(dots + 2), from, kMaxCount)};
}

void check_profile_window(const ProfileWindow& window, std::int64_t gen_tokens) {
  if (window.last < gen_tokens) return;
  throw InputError(fmt::format(
      "--profile decode:{}..{}: --gen-tokens {} makes {} decode steps, for the prefill gives the first token",
      window.first, window.last, gen_tokens, gen_tokens - 1));
}

std::string profile_window_text(const ProfileWindow& window) {
  if (window.first == 0) return "the prefill";
  if (window.first == window.last) return fmt::format("decode step {}", window.first);
  return fmt::format("decode steps {} to {}", window.first, window.last);
}

WindowMarker::~WindowMarker() {
  if (!range_) return;  // otherwise an error or Ctrl-C ended the round, and a profiler is not left running
  try {
    ops_.stop_profiler();
  } catch (const std::exception&) {  // the error that ended the round is on its way
  }
}

void WindowMarker::before_pass(std::int64_t pass) {
  if (pass != window_.first) return;
  ops_.start_profiler();
  range_.emplace();
}

void WindowMarker::after_pass(std::int64_t pass) {
  if (pass != window_.last) return;
  ops_.stop_profiler();
  range_.reset();
}

}  // namespace kvlab
