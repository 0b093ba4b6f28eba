// CUPTI's buffers, filled by hand with the records of this toolkit.
#include "kernels/cuda/cupti/activity_records.h"

#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <stdexcept>

namespace kvlab::cuda {
namespace {

#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#else
using Kernel = CUpti_ActivityKernel9;
#endif

/// A buffer as CUPTI hands it over: records back to back, the rest unused.
class Buffer {
 public:
  template <typename Record>
  void add(const Record& record) {
    std::memcpy(bytes_ + valid_bytes_, &record, sizeof record);
    valid_bytes_ += sizeof record;
  }
  void add_kernel(const char* name, std::uint64_t start, std::uint64_t end,
                  CUpti_ActivityKind kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    Kernel kernel{};
    kernel.kind = kind;
    kernel.name = name;
    kernel.start = start;
    kernel.end = end;
    add(kernel);
  }
  std::vector<KernelRecord> kernels() {
    std::vector<KernelRecord> found;
    append_kernels(bytes_, valid_bytes_, found);
    return found;
  }
  void cut(std::size_t bytes) { valid_bytes_ -= bytes; }

 private:
  alignas(16) std::uint8_t bytes_[4096] = {};
  std::size_t valid_bytes_ = 0;
};

TEST(ActivityRecords, KernelsAreReadWithDemangledNames) {
  Buffer buffer;
  buffer.add_kernel("_ZN5kvlab4cuda11gemv_kernelILi3EEEvPKf", 1000, 1250);
  buffer.add_kernel("plain_name", 2000, 2001);
  buffer.add_kernel(nullptr, 3000, 3500, CUPTI_ACTIVITY_KIND_KERNEL);
  const std::vector<KernelRecord> expected = {{"void kvlab::cuda::gemv_kernel<3>(float const*)", 1000, 1250},
                                              {"plain_name", 2000, 2001},
                                              {"(unnamed)", 3000, 3500}};
  EXPECT_EQ(buffer.kernels(), expected);
}

TEST(ActivityRecords, OtherKindsArePassedOver) {
  Buffer buffer;
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  buffer.add(overhead);
  buffer.add_kernel("first", 10, 20);
  buffer.add(overhead);
  buffer.add_kernel("second", 30, 40);
  const std::vector<KernelRecord> expected = {{"first", 10, 20}, {"second", 30, 40}};
  EXPECT_EQ(buffer.kernels(), expected);
}

TEST(ActivityRecords, AnEmptyBufferHasNone) { EXPECT_TRUE(Buffer().kernels().empty()); }

TEST(ActivityRecords, AKernelWithoutTimesIsAnError) {
  Buffer unknown;
  unknown.add_kernel("untimed", 0, 0);
  EXPECT_THROW(unknown.kernels(), std::runtime_error);
  Buffer backwards;
  backwards.add_kernel("backwards", 20, 10);
  EXPECT_THROW(backwards.kernels(), std::runtime_error);
}

TEST(ActivityRecords, ARecordOfNoKnownKindIsAnError) {
  Buffer buffer;
  buffer.add_kernel("strange", 10, 20, static_cast<CUpti_ActivityKind>(0x7ffffff0));
  EXPECT_THROW(buffer.kernels(), std::runtime_error);
}

TEST(CuptiModule, MakesATraceThatNamesTheCallThatFailsWithoutADriver) {
  void* module = dlopen(KVLAB_CUPTI_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto make = reinterpret_cast<MakeKernelTrace>(dlsym(module, kMakeKernelTrace));
  ASSERT_NE(make, nullptr);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver != nullptr) GTEST_SKIP() << "there is a driver here";
  try {
    const std::unique_ptr<KernelTrace> trace(make());
    trace->start();
    FAIL() << "started without a driver";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("cuptiActivity"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace kvlab::cuda
