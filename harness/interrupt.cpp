// The signal handler does what is safe in a handler: it sets a flag, and ends the process when asked again.
#include "harness/interrupt.h"

#include <csignal>
#include <ctime>

namespace kvlab {

namespace {

volatile std::sig_atomic_t signal_seen = 0;
volatile std::time_t first_signal_s = 0;

std::time_t now_s() {
  std::timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/// Some senders (timeout, a shell's process group) deliver the same signal twice at once: that is one request.
void remember_signal(int signal) {
  if (signal_seen == 0) {
    signal_seen = 1;
    first_signal_s = now_s();
  } else if (now_s() - first_signal_s >= 2) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

void watch_for_interrupt() {
  struct sigaction action = {};
  action.sa_handler = remember_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return signal_seen != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted{};
}

}  // namespace kvlab
