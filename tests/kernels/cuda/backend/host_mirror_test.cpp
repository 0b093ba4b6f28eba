// Host arrays of one step after another, uploaded from pinned memory that the emulated runtime watches.
#include "kernels/cuda/backend/host_mirror.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cuda_emulation/runtime.h"

namespace kvlab::cuda {
namespace {

class CudaHostMirror : public testing::TestWithParam<HostMirror::Uploads> {
 protected:
  std::vector<std::int32_t> on_device(const std::int32_t* copy, std::size_t n) {
    std::vector<std::int32_t> values(n);
    context_.runtime().copy_to_host(values.data(), copy, n * sizeof(std::int32_t), context_.stream());
    return values;
  }

  emulation::Device device_{{.counts = false}};
  DeviceContext context_{emulation::make_emulated_runtime(device_), nullptr};
};

/// Nothing waits between the steps but the mirror itself. Arrays of a size beyond a chunk have a chunk of their own.
TEST_P(CudaHostMirror, EveryStepHasItsOwnValuesAndNoneIsChangedUnderWay) {
  HostMirror mirror(context_, GetParam());
  std::vector<std::int32_t> small(5);
  std::vector<std::int32_t> large(20'000);
  std::int64_t n_allocations = 0;
  for (int step = 0; step < 7; ++step) {
    std::iota(small.begin(), small.end(), 100 * step);
    std::iota(large.begin(), large.end(), -7 * step);
    if (GetParam() == HostMirror::Uploads::at_once) mirror.forget();
    const std::int32_t* small_copy = mirror.copy_of(std::span<const std::int32_t>(small));
    const std::int32_t* large_copy = mirror.copy_of(std::span<const std::int32_t>(large));
    if (GetParam() == HostMirror::Uploads::together) mirror.upload();
    EXPECT_EQ(on_device(small_copy, small.size()), small) << "step " << step;
    EXPECT_EQ(on_device(large_copy, large.size()), large) << "step " << step;
    if (step == 0) n_allocations = device_.n_allocations();
  }
  EXPECT_EQ(device_.n_allocations(), n_allocations) << "a step of a known shape allocates nothing";
  EXPECT_EQ(context_.runtime().transfers().to_device_bytes, 7 * (5 + 20'000) * 4);
}

INSTANTIATE_TEST_SUITE_P(Uploads, CudaHostMirror,
                         testing::Values(HostMirror::Uploads::at_once, HostMirror::Uploads::together),
                         [](const auto& uploads) {
                           return uploads.param == HostMirror::Uploads::at_once ? "AtOnce" : "Together";
                         });

}  // namespace
}  // namespace kvlab::cuda
