// A child process and the line-by-line talk with it over one socket; no knowledge of what is said.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

/// The child's end of the socket.
constexpr int kChildSocket = 3;

class ChildProcess {
 public:
  /// Starts this program again with `arguments`. The child reads nothing from standard input, and what it writes to
  /// standard output goes to standard error. Throws std::runtime_error when the system refuses.
  explicit ChildProcess(const std::vector<std::string>& arguments);
  /// Ends the child, however busy it is.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// False when the child is gone.
  bool send_line(std::string_view line);

  enum class Reading { line, timeout, closed };
  /// Waits for a whole line, at most `timeout_s`. Throws Interrupted when the user asked to stop.
  Reading receive_line(std::string& line, double timeout_s);

  /// Kills the child if it still lives, and tells how it ended: waitpid's status.
  int end();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string received_;  // and not yet asked for
};

/// Reads lines from a socket or pipe; none: the other side is gone.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  std::optional<std::string> next();

 private:
  int descriptor_;
  std::string received_;
};

/// Writes all of it and the end of the line. False when the other side is gone.
bool send_line(int socket, std::string_view line);

/// "exit code 3", "signal 11 (Segmentation fault)".
std::string describe_end(int wait_status);

}  // namespace kvlab
