// Ctrl-C and SIGTERM as a flag that loops look at between steps, so that what was done so far is still written.
#pragma once

namespace kvlab {

constexpr int kInterruptedExitCode = 130;

/// Thrown by work that stopped because of the flag; not a std::exception, so that "a case failed" never swallows it.
struct Interrupted {};

/// From now on the first SIGINT or SIGTERM sets the flag; another one, seconds later, ends the process at once.
void watch_for_interrupt();
bool interrupted();
/// Throws Interrupted when the flag is set.
void stop_if_interrupted();

}  // namespace kvlab
