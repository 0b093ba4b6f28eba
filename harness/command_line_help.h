// The words of `kvlab --help`: what each command is for, and examples to copy.
#pragma once

#include <string>
#include <string_view>

namespace kvlab {

struct CommandHelp {
  std::string_view name;
  std::string_view purpose;   // one sentence for the list of commands
  std::string_view examples;  // printed below the options
};

/// The help of a command.
const CommandHelp& command_help(std::string_view name);

std::string_view program_help();
std::string_view program_examples();

struct Axis;

/// The axis's sentence and its values with a sentence each.
std::string axis_help(const Axis& axis);

}  // namespace kvlab
