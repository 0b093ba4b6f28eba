// From arguments to one of the commands in harness/commands/commands.h, and from what it throws to an exit code.
#pragma once

namespace kvlab {

/// Exit codes: 0 done; 1 a check or a case failed, or the machine did; 2 the request was wrong; 130 interrupted.
/// Errors are one line on standard error.
int run_command_line(int argc, char** argv);

}  // namespace kvlab
