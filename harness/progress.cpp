// Prints progress; knows a terminal from a pipe.
#include "harness/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvlab {

namespace {

bool silent = false;

/// A longer line would wrap, and a wrapped line cannot be rewritten.
std::string cut_to_terminal(const std::string& line) {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return line;
  return line.substr(0, size.ws_col - 1U);
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}
Progress::~Progress() { clear(); }

void Progress::silence() { silent = true; }

void Progress::show(double fraction, const std::string& line) {
  show(terminal_ ? fmt::format("{} {}", progress_bar(fraction), line) : line);
}

void Progress::show(const std::string& line) {
  if (silent) return;
  if (terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", cut_to_terminal(line));
    line_open_ = true;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

void Progress::tick(const std::string& line) {
  const double now_s = watch_.elapsed_s();
  const double interval_s = terminal_ ? 1.0 : 5.0;
  if (now_s < 1.0 || (last_tick_s_ > 0 && now_s - last_tick_s_ < interval_s)) return;
  last_tick_s_ = now_s;
  show(line);
}

void Progress::clear() {
  if (!line_open_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  line_open_ = false;
}

void remark(const std::string& line) {
  if (!silent) fmt::print(stderr, "{}\n", line);
}

std::string progress_bar(double fraction) {
  constexpr double kWidth = 20;
  if (!(fraction >= 0)) return fmt::format("[{:.>{}}]    ?", "", static_cast<int>(kWidth));
  const double done = std::min(fraction, 1.0);
  const auto filled = static_cast<std::size_t>(std::lround(kWidth * done));
  const std::string bar = std::string(filled, '#') + std::string(static_cast<std::size_t>(kWidth) - filled, '-');
  return fmt::format("[{}] {:3.0f} %", bar, 100 * done);
}

std::string clock_text(double seconds) {
  const auto total = static_cast<long>(std::lround(seconds < 0 ? 0 : seconds));
  const long hours = total / 3600;
  const long minutes = total / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

}  // namespace kvlab
