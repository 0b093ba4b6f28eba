// A plan prints the published numbers, and datasheets are read or refused.
#include "harness/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "harness/quantities.h"
#include "kernels/error.h"
#include "tests/harness/shapes.h"

namespace kvlab {
namespace {

using ::testing::HasSubstr;

TEST(SpecS15, PlanPrintsTheFootprintOfLlama8b) {
  const Plan plan = make_plan(testing_shapes::llama_8b(), {}, 4096, 32);
  const std::string text = plan_text(plan);
  for (const char* number :
       {"8,030,261,248 parameters", "16,060,522,496 B", " 512 B", "4,096 B (4 KiB)", "131,072 B (128 KiB)",
        "536,870,912 B (512 MiB)", "17,179,869,184 B (16 GiB)", "524,288 B (512 KiB)", "2,147,483,648 B (2 GiB)"}) {
    EXPECT_THAT(text, HasSubstr(number));
  }
  const StoragePlan& sixteen = plan.storages.at(0);
  ASSERT_EQ(sixteen.kv.at(0).heads, "model");
  EXPECT_EQ(sixteen.kv[0].head_layer_bytes, 512);
  EXPECT_EQ(sixteen.kv[0].layer_bytes, 4096);
  EXPECT_EQ(sixteen.kv[0].token_bytes, 131072);
  EXPECT_EQ(sixteen.kv[0].batch_bytes, 17179869184);
  ASSERT_EQ(sixteen.kv.at(1).heads, "mha");
  EXPECT_EQ(sixteen.kv[1].token_bytes, 524288);
  EXPECT_EQ(sixteen.kv[1].sequence_bytes, 4 * sixteen.kv[0].sequence_bytes);
  ASSERT_EQ(sixteen.kv.at(2).heads, "mqa");
  EXPECT_EQ(sixteen.kv[2].token_bytes, 131072 / 8);
  EXPECT_EQ(sixteen.kv[2].head_layer_bytes, 512);
}

TEST(SpecS15, PlanOfALongContext) {
  const Plan plan = make_plan(testing_shapes::llama_8b(), {}, 128000, 1);
  EXPECT_THAT(plan_text(plan), HasSubstr("(15.625 GiB)"));
}

TEST(SpecS22, PlanCountsPrefillAndDecodeStep) {
  const Plan plan = make_plan(testing_shapes::llama_8b(), {}, 4096, 1);
  EXPECT_EQ(plan.storages[0].prefill.flops(), 61574775570432);
  EXPECT_EQ(plan.storages[0].decode.weight_bytes, 15009857536);
  EXPECT_EQ(plan.storages[0].decode.kv_read_bytes, 536870912);
  EXPECT_EQ(plan.storages[1].decode.weight_bytes, 2 * 15009857536);
}

TEST(Plan, RooflineTakesTheSlowerSide) {
  Hardware hardware{"round", "made up", 80'000'000'000, 1e12, 1e13, 1e14, std::nullopt, {}};
  const Plan plan = make_plan(testing_shapes::llama_8b(), {}, 4096, 1, {hardware});
  const StoragePlan& sixteen = plan.storages[0];
  EXPECT_TRUE(sixteen.prefill.time->bound_by_compute);
  EXPECT_NEAR(sixteen.prefill.time->seconds, 61574775570432 / 1e14, 1e-9);
  EXPECT_FALSE(sixteen.decode.time->bound_by_compute);
  EXPECT_NEAR(sixteen.decode.time->seconds, static_cast<double>(sixteen.decode.bytes()) / 1e12, 1e-9);
  EXPECT_NEAR(plan.storages[1].prefill.time->seconds, 61574775570432 / 1e13, 1e-9);
  EXPECT_THAT(plan_text(plan), HasSubstr("fits in 80,000,000,000 bytes"));
}

TEST(Plan, MixedStorageAndOtherHeadsGetTheirOwnRows) {
  Variant variant;
  variant.weight_dtype = DType::bf16;
  variant.heads = HeadsKind::gqa;
  variant.gqa_kv_heads = 16;
  const Plan plan = make_plan(testing_shapes::llama_8b(), variant, 10, 1);
  ASSERT_EQ(plan.storages.size(), 3U);
  EXPECT_EQ(plan.storages[2].weight_dtype, DType::bf16);
  EXPECT_EQ(plan.storages[2].kv_dtype, DType::f32);
  EXPECT_EQ(plan.storages[2].kv.back().heads, "gqa:16");
  EXPECT_EQ(plan.storages[2].kv.back().token_bytes, 4 * 131072);
}

TEST(Plan, SaysByHowMuchItDoesNotFit) {
  const Hardware hardware{"small", "made up", 20'000'000'000, 1e12, 1e13, 1e14, std::nullopt, {}};
  const Plan plan = make_plan(testing_shapes::llama_8b(), {}, 4096, 32, {hardware});
  const StoragePlan& sixteen = plan.storages.at(0);
  EXPECT_EQ(sixteen.memory.weight_bytes, 16060522496);
  EXPECT_EQ(sixteen.memory.kv_bytes, 17179869184);
  ASSERT_TRUE(sixteen.fit.has_value());
  EXPECT_FALSE(sixteen.fit->fits());
  const std::int64_t missing = sixteen.memory.total_bytes() - 20'000'000'000;
  EXPECT_GT(missing, 16060522496 + 17179869184 - 20'000'000'000);
  EXPECT_THAT(plan_text(plan), HasSubstr("does not fit in 20,000,000,000 bytes: " + bytes_text(missing) + " too many"));
  EXPECT_EQ(plan_json(plan)["storage"][0]["fit"]["left_bytes"], -missing);
  EXPECT_EQ(plan.storages.at(1).fit->largest_batch, 0) << "32 GB of f32 weights";
}

TEST(Plan, RefusesWhatCannotBe) {
  Variant narrow;
  narrow.kv_capacity = 5;
  EXPECT_THROW(make_plan(testing_shapes::llama_8b(), narrow, 6, 1), InputError);
  EXPECT_THROW(make_plan(testing_shapes::llama_8b(), {}, 1, kMostSequences + 1), InputError);
  EXPECT_THROW(make_plan(testing_shapes::llama_8b(), {}, 131073, 1), InputError);
  EXPECT_THROW(make_plan(testing_shapes::llama_8b(), {}, 0, 1), InputError);
  EXPECT_THROW(make_plan(testing_shapes::llama_8b(), {}, 10, 0), InputError);
}

TEST(Hardware, EveryDatasheetIsWholeAndDense) {
  // With 2:4 sparsity, as the makers' datasheets print it beside the dense number.
  const std::map<std::string, double> sparse_bf16_flops_per_s = {{"a100-80gb", 624e12}, {"h100-sxm", 1979e12},
                                                                 {"h200", 1979e12},     {"b200", 4500e12},
                                                                 {"mi300x", 2614.9e12}, {"rtx-4090", 330.4e12}};
  const std::vector<std::string> names = hardware_names();
  EXPECT_THAT(names, ::testing::IsSupersetOf({"a100-80gb", "h100-sxm", "h200", "b200", "mi300x", "rtx-4090"}));
  for (const std::string& name : names) {
    const Hardware hardware = load_hardware(name);
    EXPECT_FALSE(hardware.source.empty()) << name;
    EXPECT_GT(hardware.bf16_flops_per_s, hardware.f32_flops_per_s) << name;
    ASSERT_TRUE(sparse_bf16_flops_per_s.contains(name)) << name << ": add its sparse number here";
    EXPECT_LT(hardware.bf16_flops_per_s, 0.51 * sparse_bf16_flops_per_s.at(name)) << name << ": the sparse number?";
  }
}

TEST(Hardware, UnknownNameListsTheKnown) {
  try {
    load_hardware("abacus");
    FAIL() << "an abacus was found";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("abacus"));
    EXPECT_THAT(error.what(), HasSubstr("h100-sxm"));
  }
}

TEST(Quantities, GroupsAndUnits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(61574775570432), "61,574,775,570,432");
  EXPECT_EQ(bytes_text(1023), "1,023 B");
  EXPECT_EQ(bytes_text(1024), "1,024 B (1 KiB)");
  EXPECT_EQ(bytes_text(1536), "1,536 B (1.5 KiB)");
  EXPECT_EQ(bytes_text(16777216000), "16,777,216,000 B (15.625 GiB)");
}

}  // namespace
}  // namespace kvlab
