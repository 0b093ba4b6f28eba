// `kvlab verify --layer`: one layer of a model against float64, by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command_line/binary.h"

namespace kvlab::testing {
namespace {

using ::testing::HasSubstr;

TEST(VerifyLayer, ProvesEveryVariantOnOneLayer) {
  const Finished first =
      kvlab({"verify", "--model", "tiny", "--layer", "0", "--prompt-tokens", "5", "--gen-tokens", "2"});
  EXPECT_EQ(first.exit_code, 0) << first.err << first.out;
  EXPECT_THAT(first.out, HasSubstr("layer 0 alone"));
  EXPECT_THAT(first.out, HasSubstr(" 0 failed"));
  const Finished last =
      kvlab({"verify", "--model", "tiny", "--layer", "7", "--prompt-tokens", "5", "--gen-tokens", "2"});
  EXPECT_EQ(last.exit_code, 0) << last.err << last.out;
  // Other weights, other rounding errors.
  EXPECT_NE(first.out.substr(first.out.find('\n')), last.out.substr(last.out.find('\n')));
}

TEST(VerifyLayer, ALayerThatIsNotThereIsRefused) {
  const Finished run = kvlab({"verify", "--model", "tiny", "--layer", "8"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("has layers 0 to 7"));
}

}  // namespace
}  // namespace kvlab::testing
