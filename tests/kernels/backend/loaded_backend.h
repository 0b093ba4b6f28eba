// The backend under test, from its module: the emulated device's, or the one that KVLAB_TEST_BACKEND names (on a GPU:
// the device's). And vectors in its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/operations.h"

namespace kvlab::test {

/// Opened once for all tests; throws std::runtime_error when the module cannot be opened or its device not be used.
Operations& backend();

/// n values in a buffer of a backend, which must outlive them.
template <typename T>
class BufferOf {
 public:
  explicit BufferOf(const std::vector<T>& values, Operations& ops = backend())
      : ops_(ops), n_(values.size()), buffer_(ops.allocate(values.size() * sizeof(T))) {
    ops_.upload(buffer_->data(), values.data(), n_ * sizeof(T));
  }
  T* data() const { return static_cast<T*>(buffer_->data()); }
  std::vector<T> values() const {
    std::vector<T> result(n_);
    ops_.download(result.data(), buffer_->data(), n_ * sizeof(T));
    return result;
  }

 private:
  Operations& ops_;
  std::size_t n_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace kvlab::test
