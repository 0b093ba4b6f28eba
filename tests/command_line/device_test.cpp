// --device: what is loaded, what is refused and why, and the CUDA backend on the emulated device end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> toy(const std::string& device, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"generate",     "--model",          "toy", "--prompt",
                                        "How are you?", "--max-new-tokens", "1",   "--device",
                                        device,         "--json",           "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool has_gpu() { return kvlab({"list", "devices"}).out.find("no GPU was found") == std::string::npos; }

/// What the dynamic loader says of the files that it opens.
std::string loaded_files(const std::string& device) {
  return kvlab(toy(device), "", {}, {{"OMP_NUM_THREADS", "1"}, {"LD_DEBUG", "files"}}).err;
}

TEST(Device, CudaWithoutAGpuIsRefusedWithTheReason) {
  if (has_gpu()) GTEST_SKIP() << "there is a GPU";
  const Finished run = kvlab(toy("cuda"));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, ::testing::AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("sees no GPU"),
                                        HasSubstr("has no CUDA backend"), HasSubstr("cannot be loaded")));
  EXPECT_THAT(run.err, HasSubstr("use cpu or auto"));
  EXPECT_THAT(run.err, Not(HasSubstr("insufficient")));
}

TEST(Device, AutoTakesTheCpuAndSaysSoOnce) {
  if (has_gpu()) GTEST_SKIP() << "there is a GPU";
  const Finished run = kvlab(toy("auto"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json()["tokens"], (std::vector<int>{5}));
  const std::string said = "--device auto takes the CPU";
  EXPECT_THAT(run.err, HasSubstr(said));
  EXPECT_EQ(run.err.find(said), run.err.rfind(said));
}

TEST(Device, ACpuRunLoadsNoCudaFile) {
  const std::string files = loaded_files("cpu");
  EXPECT_THAT(files, HasSubstr("libc.so")) << "the loader says nothing";
  for (const char* name : {"libkvlab_cuda", "libcuda", "libcublas"}) EXPECT_THAT(files, Not(HasSubstr(name)));
  EXPECT_THAT(loaded_files("cuda-emulated"), HasSubstr("libkvlab_cuda_emulated.so"));
}

TEST(Device, TheEmulatedOneGivesTheToysToken) {
  for (const std::string cache : {"none", "contiguous", "paged"}) {
    for (const std::string sampling : {"host", "device"}) {
      const Finished run = kvlab(toy("cuda-emulated", {"--cache", cache, "--sampling", sampling}));
      ASSERT_EQ(run.exit_code, 0) << run.err;
      EXPECT_EQ(run.json()["tokens"], (std::vector<int>{5})) << cache << ", " << sampling;
    }
  }
}

TEST(Device, TheEmulatedOneIsNeverMeasured) {
  const Finished run = kvlab({"run", "--model", "toy", "--prompt-tokens", "2", "--gen-tokens", "2", "--device",
                              "cuda-emulated", "--json", "-"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("no times"));
}

TEST(Device, SamplingOnTheDeviceDrawsTheHostsTokens) {
  for (const std::string device : {"cpu", "cuda-emulated"}) {
    const auto tokens = [&](const std::string& sampling, const std::string& temperature) {
      const Finished run =
          kvlab({"generate",     "--model", "toy",  "--prompt",      "How are you?", "--max-new-tokens", "6",
                 "--ignore-eos", "--seed",  "4",    "--temperature", temperature,    "--top-k",          "9",
                 "--top-p",      "0.95",    "--at", "3:top-k=4",     "--sampling",   sampling,           "--device",
                 device,         "--json",  "-"});
      EXPECT_EQ(run.exit_code, 0) << run.err;
      return run.json()["tokens"].get<std::vector<int>>();
    };
    const std::vector<int> drawn = tokens("host", "9");
    EXPECT_EQ(tokens("device", "9"), drawn) << device;
    EXPECT_NE(tokens("device", "0"), drawn) << "the temperature changed nothing";
  }
}

}  // namespace
}  // namespace kvlab::testing
