// Progress on standard error: one line that rewrites itself on a terminal, plain lines when piped, nothing when
// silenced.
#pragma once

#include <chrono>
#include <string>

namespace kvlab {

/// Seconds since it was made.
class Stopwatch {
 public:
  double elapsed_s() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From now on nobody in this process shows progress or remarks (--quiet).
  static void silence();
  /// Something finished: always a line of its own when piped.
  void show(const std::string& line);
  /// The same behind a bar on a terminal. `fraction`: of the work, 0 to 1; negative: unknown.
  void show(double fraction, const std::string& line);
  /// Something goes on: at most once a second, and only after the first second.
  void tick(const std::string& line);
  /// Ends the rewriting line, so that other output starts on a fresh one.
  void clear();

 private:
  bool terminal_;
  bool line_open_ = false;
  double last_tick_s_ = 0;
  Stopwatch watch_;
};

/// A line on standard error that is no error and no progress, such as what is about to happen.
void remark(const std::string& line);

/// "[######--------------]  30 %"; dots when the fraction is negative.
std::string progress_bar(double fraction);

/// "1:05" or "2:03:04".
std::string clock_text(double seconds);

}  // namespace kvlab
