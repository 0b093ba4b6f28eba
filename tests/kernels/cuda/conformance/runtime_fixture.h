// The runtime that the primitives run on: the device where the test is compiled by nvcc, the emulator otherwise.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "tests/kernels/cuda/conformance/copies.h"

#if !defined(KVLAB_CONFORMANCE_ON_DEVICE)
#include "kernels/cuda_emulation/runtime.h"
#endif

namespace kvlab::cuda::conformance {

class RuntimeFixture : public testing::Test {
 protected:
  void SetUp() override {
#if defined(KVLAB_CONFORMANCE_ON_DEVICE)
    if (const std::string obstacle = device_obstacle(); !obstacle.empty()) GTEST_SKIP() << "no GPU: " << obstacle;
    runtime_ = make_device_runtime();
#else
    runtime_ = emulation::make_emulated_runtime(device_);
#endif
  }

  template <typename T>
  T* upload(const std::string& name, const std::vector<T>& values) {
    return conformance::upload(*runtime_, name, values.data(), values.size());
  }
  template <typename T>
  std::vector<T> download(const T* memory, std::size_t n) {
    std::vector<T> values(n);
    conformance::download(*runtime_, memory, n, values.data());
    return values;
  }

 private:
#if !defined(KVLAB_CONFORMANCE_ON_DEVICE)
  emulation::Device device_{{.seed = 3 }};
#endif
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace kvlab::cuda::conformance
