// Products of few rows by our GEMV and by cuBLAS (its stand-in) on the emulated device: forced, chosen, and told.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/backend.h"
#include "model/weight_source.h"
#include "tests/model/golden_models.h"

namespace kvlab::testing {
namespace {

/// What one model does on one device.
struct Outcome {
  std::vector<float> logits;  // of the prompt and of two steps
  std::string choices;
  bool ran_gemv = false;
};

Outcome run(GemvSetting setting, DType dtype, ExecutionKind execution) {
  cuda::emulation::Device device;
  const std::shared_ptr<Operations> ops = cuda::emulation::make_emulated_operations(device, setting);
  Variant variant;
  variant.weight_dtype = dtype;
  variant.execution = execution;
  Outcome result;
  {
    Transformer transformer(ops, make_synthetic_weights(small_config(), 1), variant);
    Decoder decoder(transformer, variant, 1, 16);
    const auto keep = [&] {
      result.logits.insert(result.logits.end(), decoder.logits(0).begin(), decoder.logits(0).end());
    };
    decoder.prefill(std::vector<std::vector<std::int32_t>>{{1, 2, 3, 4, 5, 6, 7, 8, 9}});  // more rows than a GEMV's
    keep();
    for (const std::int32_t id : {10, 11}) {
      decoder.decode(std::vector<std::int32_t>{id});
      keep();
    }
  }
  result.choices = ops->product_choices();
  for (const auto& [site, counts] : device.log().by_site()) result.ran_gemv = result.ran_gemv || site.kernel == "gemv";
  return result;
}

TEST(CudaProductEngines, BothGiveTheSameLogitsAndOnlyTheForcedOneRuns) {
  for (const ExecutionKind execution : {ExecutionKind::eager, ExecutionKind::graph}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Outcome own = run(GemvSetting::own, dtype, execution);
      const Outcome cublas = run(GemvSetting::cublas, dtype, execution);
      EXPECT_TRUE(own.ran_gemv);
      EXPECT_FALSE(cublas.ran_gemv);
      EXPECT_EQ(own.choices, "own");
      EXPECT_EQ(cublas.choices, "cublas");
      ASSERT_EQ(own.logits.size(), cublas.logits.size());
      // The same products of the same rounded inputs, summed in another order; where that turns the rounding of an
      // input to bf16, it is off by 2^-8 of its size.
      const double tolerance = dtype == DType::f32 ? 1e-3 : 0.1;
      for (std::size_t i = 0; i < own.logits.size(); ++i) ASSERT_NEAR(own.logits[i], cublas.logits[i], tolerance) << i;
    }
  }
}

TEST(CudaProductEngines, WithoutAClockTheChoiceIsOwn) {
  const Outcome chosen = run(GemvSetting::measured, DType::f32, ExecutionKind::eager);
  EXPECT_TRUE(chosen.ran_gemv);
  EXPECT_EQ(chosen.choices.rfind("auto: own ", 0), 0U) << chosen.choices;
  EXPECT_EQ(chosen.choices.find("cublas"), std::string::npos) << chosen.choices;
  EXPECT_NE(chosen.choices.find("(not timed)"), std::string::npos) << chosen.choices;
}

}  // namespace
}  // namespace kvlab::testing
