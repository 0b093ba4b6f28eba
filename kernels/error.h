// The exceptions that others tell apart: the request was wrong (exit code 2 at the command line), or memory ran out.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace kvlab {

/// Bad input. The message names the file, the key (or flag) and the way out.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Memory that a backend asked for is not there. The message names the call, the buffer and its bytes.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace kvlab
