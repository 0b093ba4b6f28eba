// kvlab plan on this machine and on devices that share a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

TEST(Plan, ThisMachineIsMeasuredAndHoldsTheToy) {
  const Finished run = kvlab({"plan", "--model", "toy", "--context", "8", "--hardware", "this", "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json plan = run.json();
  EXPECT_GT(plan["hardware"]["memory_bytes"], 0);
  EXPECT_GT(plan["hardware"]["memory_bytes_per_s"], 0.0);
  EXPECT_GT(plan["hardware"]["flops_per_s"]["bf16"], 0.0);
  EXPECT_EQ(plan["storage"][0]["fit"]["fits"], true);
  EXPECT_GT(plan["storage"][0]["decode_step"]["roofline_s"], 0.0);
}

TEST(Plan, RefusesDevicesThatCannotShareTheModel) {
  const auto plan = [](const std::string& hardware, const std::string& gpus) {
    return kvlab({"plan", "--model", "toy", "--context", "8", "--hardware", hardware, "--gpus", gpus});
  };
  const Finished of_this = plan("this", "2");
  EXPECT_EQ(of_this.exit_code, 2);
  EXPECT_THAT(of_this.err, HasSubstr("--gpus"));
  const Finished uneven = plan("h200", "3");
  EXPECT_EQ(uneven.exit_code, 2);
  EXPECT_THAT(uneven.err, HasSubstr("allowed are 1, 2"));
  const Finished unknown = plan("abacus", "1");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("`this`"));
  EXPECT_EQ(plan("h200", "2").exit_code, 0);
}

}  // namespace
}  // namespace kvlab::testing
