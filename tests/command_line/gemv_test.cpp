// --gemv: what it takes, where it is refused, and that each engine gives the toy's token on the emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

Finished toy(const std::string& device, const std::string& gemv) {
  return kvlab({"generate", "--model", "toy", "--prompt", "How are you?", "--max-new-tokens", "1", "--device", device,
                "--gemv", gemv, "--json", "-"});
}

TEST(Gemv, EveryEngineGivesTheToysToken) {
  for (const std::string gemv : {"auto", "own", "cublas"}) {
    const Finished run = toy("cuda-emulated", gemv);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.json()["tokens"], (std::vector<int>{5})) << gemv;
  }
}

TEST(Gemv, IsRefusedWhereItMeansNothing) {
  const Finished on_cpu = toy("cpu", "own");
  EXPECT_EQ(on_cpu.exit_code, 2);
  EXPECT_EQ(on_cpu.out, "");
  EXPECT_THAT(on_cpu.err, HasSubstr("--gemv: the CPU has one code for its products"));
  const Finished unknown = toy("cuda-emulated", "fast");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--gemv: there is no \"fast\"; allowed are auto, own, cublas"));
}

}  // namespace
}  // namespace kvlab::testing
