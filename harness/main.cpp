// The program: arguments to the command line, exceptions to exit codes.
#include "harness/command_line.h"

int main(int argc, char** argv) { return kvlab::run_command_line(argc, argv); }
