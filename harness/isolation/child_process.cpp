// posix_spawn, a socket pair and poll.
#include "harness/isolation/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "harness/interrupt.h"
#include "harness/progress.h"

namespace kvlab {

namespace {

constexpr double kLookAround_s = 0.1;  // how often a wait looks for an interrupt that came just before it

std::runtime_error system_error(const char* call, int code) {
  return std::runtime_error(fmt::format("a worker process cannot be started: {}: {}", call, std::strerror(code)));
}

/// Takes the first whole line out of `received`.
std::optional<std::string> take_line(std::string& received) {
  const std::size_t end = received.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = received.substr(0, end);
  received.erase(0, end + 1);
  return line;
}

/// Appends what has arrived. False at the end of the stream.
bool receive_some(int descriptor, std::string& received) {
  std::array<char, 65536> buffer{};
  const ssize_t n = read(descriptor, buffer.data(), buffer.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  received.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0;
}

pid_t spawn(const std::vector<std::string>& arguments, int child_socket) {
  std::vector<std::string> words = {"kvlab"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_socket, kChildSocket);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = -1;
  const int code = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw system_error("posix_spawn", code);
  return pid;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw system_error("socketpair", errno);
  socket_ = ends[0];
  try {
    pid_ = spawn(arguments, ends[1]);
  } catch (...) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
}

ChildProcess::~ChildProcess() {
  end();
  close(socket_);
}

bool ChildProcess::send_line(std::string_view line) { return kvlab::send_line(socket_, line); }

ChildProcess::Reading ChildProcess::receive_line(std::string& line, double timeout_s) {
  const Stopwatch watch;
  while (true) {
    if (std::optional<std::string> whole = take_line(received_)) {
      line = std::move(*whole);
      return Reading::line;
    }
    stop_if_interrupted();
    const double left_s = timeout_s - watch.elapsed_s();
    if (left_s <= 0) return Reading::timeout;
    pollfd waiting = {socket_, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(1e3 * std::min(kLookAround_s, left_s)) + 1);
    if (ready > 0 && !receive_some(socket_, received_)) return Reading::closed;
  }
}

int ChildProcess::end() {
  if (pid_ < 0) return 0;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

std::optional<std::string> LineReader::next() {
  while (true) {
    if (std::optional<std::string> line = take_line(received_)) return line;
    if (!receive_some(descriptor_, received_)) return std::nullopt;
  }
}

bool send_line(int socket, std::string_view line) {
  std::string left(line);
  left.push_back('\n');
  while (!left.empty()) {
    const ssize_t n = send(socket, left.data(), left.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) left.erase(0, static_cast<std::size_t>(n));
  }
  return true;
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return fmt::format("signal {} ({})", signal, strsignal(signal));
  }
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace kvlab
