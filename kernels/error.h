// The one exception that means "the request was wrong": it becomes exit code 2 at the command line.
#pragma once

#include <stdexcept>
#include <string>

namespace kvlab {

/// Bad input. The message names the file, the key (or flag) and the way out.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvlab
