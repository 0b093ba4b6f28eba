// Products of few rows by our GEMV and by cuBLAS (its stand-in) on the emulated device: forced, chosen, and told. What
// whole models give with either is in golden_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/backend.h"
#include "model/weight_source.h"
#include "tests/kernels/backend/product_case.h"
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

TEST(CudaProductEngines, BothGiveFloat64ProductsOfTheInputsThatTheyRound) {
  for (const GemvSetting setting : {GemvSetting::own, GemvSetting::cublas}) {
    cuda::emulation::Device device({.counts = false});
    const auto ops = cuda::emulation::make_emulated_operations(device, setting);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t n_rows : {1, 2, 7, 8, 9}) {
        test::check_product(*ops, {n_rows, 72, 37}, dtype);
        test::check_product(*ops, {n_rows, 64, 50, true, true, 8}, dtype);
      }
    }
  }
}

TEST(CudaProductEngines, OnlyTheForcedOneRunsInAModelAndItsGraphGivesTheSameBits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const GemvSetting setting : {GemvSetting::own, GemvSetting::cublas}) {
      const Outcome eager = run(setting, dtype, ExecutionKind::eager);
      const Outcome graph = run(setting, dtype, ExecutionKind::graph);
      for (const Outcome* outcome : {&eager, &graph}) {
        EXPECT_EQ(outcome->ran_gemv, setting == GemvSetting::own);
        EXPECT_EQ(outcome->choices, setting == GemvSetting::own ? "own" : "cublas");
      }
      ASSERT_EQ(eager.logits.size(), graph.logits.size());
      EXPECT_EQ(std::memcmp(eager.logits.data(), graph.logits.data(), eager.logits.size() * sizeof(float)), 0);
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
