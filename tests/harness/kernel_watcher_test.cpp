// Which kernels belong to which pass, with a trace of our own in CUPTI's place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/kernel_times_run.h"
#include "harness/kernel_trace_module.h"
#include "harness/local_runner.h"
#include "kernels/error.h"

namespace kvlab {
namespace {

/// Each pass ran one kernel, named by its number.
class FakeTrace : public cuda::KernelTrace {
 public:
  void start() override {
    EXPECT_FALSE(running_);
    running_ = true;
  }
  std::vector<cuda::KernelRecord> stop() override {
    EXPECT_TRUE(running_);
    running_ = false;
    ++n_passes_;
    return {{"kernel_" + std::to_string(n_passes_), 1000, 2000}};
  }

 private:
  bool running_ = false;
  int n_passes_ = 0;
};

TEST(KernelWatcher, GivesEachPassItsKernelsAndItsTime) {
  Case spec;
  spec.model = "toy";
  spec.workload = {1, 0, 5, 4};
  LocalRunner runner({spec.model, "cpu", 1, 1, ""});
  ASSERT_EQ(runner.check(spec).status, Status::ok);
  FakeTrace trace;
  KernelWatcher watcher(trace, runner.operations());
  const CaseOutcome outcome = runner.watched_round(spec, watcher);
  ASSERT_EQ(outcome.status, Status::ok) << outcome.reason;
  const std::vector<TracedPass> passes = watcher.passes(*outcome.round);
  ASSERT_EQ(passes.size(), 4U);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    ASSERT_EQ(passes[i].kernels.size(), 1U);
    EXPECT_EQ(passes[i].kernels[0].name, "kernel_" + std::to_string(i + 1));
    EXPECT_EQ(passes[i].pass_s, i == 0 ? outcome.round->ttft_s : outcome.round->step_s[i - 1]);
  }
}

TEST(KernelTraceModule, SaysWhyItCannotBeLoaded) {
  EXPECT_THROW(load_kernel_trace("/no/such/libkvlab_cupti.so"), InputError);
  EXPECT_THROW(load_kernel_trace("libm.so.6"), InputError);
}

}  // namespace
}  // namespace kvlab
