// Tables of kernel times from made-up records.
#include "harness/kernel_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace kvlab {
namespace {

using ::testing::HasSubstr;

TEST(KernelTimes, LabelsKeepTheFunctionAndItsTemplateArguments) {
  EXPECT_EQ(kernel_label("void kvlab::cuda::gemv_kernel<3, float>(float const*, int)"), "gemv_kernel<3, float>");
  EXPECT_EQ(kernel_label("kvlab::cuda::(anonymous namespace)::argmax_kernel(kvlab::cuda::Args)"), "argmax_kernel");
  EXPECT_EQ(kernel_label("void f<kvlab::cuda::Bf16, (int)128, g<a::b>>(int)"), "f<Bf16, (int)128, g<a::b>>");
  EXPECT_EQ(kernel_label("sm90_xmma_gemm_bf16bf16_f32"), "sm90_xmma_gemm_bf16bf16_f32");
  EXPECT_EQ(kernel_label("void cutlass::Kernel2<cutlass_80_tensorop>(T1::Params)"), "Kernel2<cutlass_80_tensorop>");
  EXPECT_EQ(kernel_label(""), "");
}

TEST(KernelTimes, SumsSharesAndMediansOverPasses) {
  // Two passes of 10 us: a ran for 1, 2 and 6 us, b for 3 us; 12 of 20 us, so gaps of 0.4.
  const std::array<TracedPass, 2> passes = {
      TracedPass{{{"void a<1>(int)", 1000, 2000}, {"b()", 2500, 5500}, {"void a<1>(int)", 6000, 8000}}, 10e-6},
      TracedPass{{{"void a<1>(int)", 11000, 17000}}, 10e-6}};
  const KernelTimes times = kernel_times(passes);
  ASSERT_EQ(times.rows.size(), 2U);
  EXPECT_EQ(times.n_kernels, 4);
  EXPECT_NEAR(times.kernel_s, 12e-6, 1e-15);
  EXPECT_NEAR(times.pass_s, 20e-6, 1e-15);
  EXPECT_NEAR(times.gaps, 0.4, 1e-9);
  EXPECT_EQ(times.rows[0].kernel, "a<1>");
  EXPECT_EQ(times.rows[0].count, 3);
  EXPECT_NEAR(times.rows[0].total_s, 9e-6, 1e-15);
  EXPECT_NEAR(times.rows[0].share, 0.75, 1e-9);
  EXPECT_NEAR(times.rows[0].median_s, 2e-6, 1e-15);
  EXPECT_EQ(times.rows[1].kernel, "b");
  EXPECT_NEAR(times.rows[1].share, 0.25, 1e-9);
}

TEST(KernelTimes, APassWithoutKernelsIsAllGap) {
  const std::array<TracedPass, 1> passes = {TracedPass{{}, 1e-3}};
  const KernelTimes times = kernel_times(passes);
  EXPECT_TRUE(times.rows.empty());
  EXPECT_DOUBLE_EQ(times.gaps, 1);
}

TEST(KernelTimes, KernelsThatOverlapCountTwice) {
  const std::array<TracedPass, 1> passes = {TracedPass{{{"a", 100, 1100}, {"b", 600, 1600}}, 2e-6}};
  EXPECT_NEAR(kernel_times(passes).gaps, 0, 1e-9);
}

TEST(KernelTimes, AreATableAndJson) {
  const std::array<TracedPass, 1> passes = {TracedPass{{{"void a<1>(int)", 1000, 3500}, {"b", 4000, 4500}}, 4e-6}};
  const std::string text = kernel_times_text("decode", kernel_times(passes));
  EXPECT_THAT(text, HasSubstr("decode: 2 kernels, 0.003 ms of 0.004 ms, gaps 25.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("a<1> +1 +0\\.003 +83\\.3 +2\\.50"));
  const nlohmann::ordered_json json = kernel_times_json(kernel_times(passes));
  EXPECT_EQ(json["kernels"][0]["kernel"], "a<1>");
  EXPECT_EQ(json["kernels"][0]["count"], 1);
  EXPECT_DOUBLE_EQ(json["gaps"], 0.25);
}

}  // namespace
}  // namespace kvlab
