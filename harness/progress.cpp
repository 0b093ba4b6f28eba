// Prints progress; knows a terminal from a pipe.
#include "harness/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace kvlab {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}
Progress::~Progress() { clear(); }

void Progress::show(const std::string& line) {
  if (terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", line);
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

std::string clock_text(double seconds) {
  const auto total = static_cast<long>(std::lround(seconds < 0 ? 0 : seconds));
  const long hours = total / 3600;
  const long minutes = total / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

}  // namespace kvlab
