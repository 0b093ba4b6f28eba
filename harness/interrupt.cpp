// The signal handler does the one thing that is safe in a handler: it sets a flag.
#include "harness/interrupt.h"

#include <csignal>

namespace kvlab {

namespace {

volatile std::sig_atomic_t signal_seen = 0;

void remember_signal(int) { signal_seen = 1; }

}  // namespace

void watch_for_interrupt() {
  struct sigaction action = {};
  action.sa_handler = remember_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return signal_seen != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted{};
}

}  // namespace kvlab
