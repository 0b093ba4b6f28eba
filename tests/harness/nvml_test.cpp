// NVML against a library of our own (fake_nvml/), which no GPU is needed for.
#include "harness/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/disturbance.h"
#include "tests/harness/made_up_results.h"

namespace kvlab {
namespace {

/// Sets a variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Nvml, IsNullWithoutTheLibrary) { EXPECT_EQ(Nvml::open("libkvlab-no-such-library.so"), nullptr); }

TEST(Nvml, IsNullForALibraryThatIsSomethingElse) { EXPECT_EQ(Nvml::open("libm.so.6"), nullptr); }

TEST(Nvml, IsNullWithoutADriver) {
  const Variable broken("KVLAB_FAKE_NVML", "broken");
  EXPECT_EQ(Nvml::open(KVLAB_FAKE_NVML_LIBRARY), nullptr);
}

void expect_all_values(const std::string& library) {
  const auto nvml = Nvml::open(library);
  ASSERT_NE(nvml, nullptr);
  const auto gpu = nvml->read();
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->name, "NVIDIA H200");
  EXPECT_EQ(gpu->driver, "580.65.06");
  EXPECT_EQ(gpu->sm_mhz, 1755);
  EXPECT_EQ(gpu->max_sm_mhz, 1980);
  EXPECT_EQ(gpu->memory_mhz, 3201);
  EXPECT_DOUBLE_EQ(gpu->power_w.value_or(0), 512.25);
  EXPECT_DOUBLE_EQ(gpu->power_limit_w.value_or(0), 700);
  EXPECT_EQ(gpu->temperature_c, 64);
  EXPECT_EQ(gpu->clock_events, 0x45U);
  EXPECT_EQ(gpu->ecc, true);
  EXPECT_EQ(gpu->free_memory_bytes, std::int64_t{100} << 30);
}

TEST(Nvml, ReadsWhatTheGpuTells) { expect_all_values(KVLAB_FAKE_NVML_LIBRARY); }

TEST(Nvml, AnOlderLibraryCallsTheReasonsThrottling) { expect_all_values(KVLAB_FAKE_OLD_NVML_LIBRARY); }

TEST(Nvml, WhatTheGpuKeepsToItselfIsAbsent) {
  const Variable mute("KVLAB_FAKE_NVML", "mute");
  const auto gpu = Nvml::open(KVLAB_FAKE_NVML_LIBRARY)->read();
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->name, "NVIDIA H200");
  EXPECT_FALSE(gpu->sm_mhz || gpu->power_w || gpu->temperature_c || gpu->clock_events || gpu->ecc ||
               gpu->free_memory_bytes);
}

TEST(Nvml, TheVisibleDeviceIsRead) {
  const auto nvml = Nvml::open(KVLAB_FAKE_NVML_LIBRARY);
  ASSERT_NE(nvml, nullptr);
  for (const char* there : {"2", "2,1", "GPU-1234"}) {
    const Variable visible("CUDA_VISIBLE_DEVICES", there);
    EXPECT_TRUE(nvml->read()) << there;
  }
  for (const char* absent : {"1", "", "-1", "GPU-4321", "none", "MIG-1"}) {
    const Variable visible("CUDA_VISIBLE_DEVICES", absent);
    EXPECT_FALSE(nvml->read()) << absent;
  }
}

TEST(MachineLoad, OfARunOnTheGpuHasWhatNvmlTells) {
  const auto nvml = Nvml::open(KVLAB_FAKE_NVML_LIBRARY);
  const MachineLoad load = read_machine_load("cuda", nvml.get());
  EXPECT_DOUBLE_EQ(load.gpu_mhz, 1755);
  EXPECT_DOUBLE_EQ(load.gpu_memory_mhz, 3201);
  EXPECT_DOUBLE_EQ(load.gpu_power_w, 512.25);
  EXPECT_DOUBLE_EQ(load.gpu_temperature_c, 64);
  EXPECT_EQ(load.gpu_clock_events, 0x45U);
  EXPECT_EQ(load.gpu_slowdowns, 0x44U) << "idle is no slowdown";
}

TEST(MachineLoad, OfARunOnTheCpuOrWithoutNvmlHasNothingOfTheGpu) {
  const auto nvml = Nvml::open(KVLAB_FAKE_NVML_LIBRARY);
  for (const MachineLoad& load : {read_machine_load("cpu", nvml.get()), read_machine_load("cuda", nullptr)}) {
    EXPECT_EQ(load.gpu_mhz, 0);
    EXPECT_EQ(load.gpu_power_w, 0);
    EXPECT_EQ(load.gpu_clock_events, 0U);
  }
}

/// A row of a report as it is when the GPU ran it.
TEST(ReportRow, HasTheGpuOfEveryRound) {
  const auto nvml = Nvml::open(KVLAB_FAKE_NVML_LIBRARY);
  const MachineLoad load = read_machine_load("cuda", nvml.get());
  CaseResult result = made_up::ok_result(2);
  result.disturbances = {disturbance_between(load, load), Disturbance{}};
  const nlohmann::ordered_json row = result_json(result, testing_shapes::toy(), made_up::ceilings())["disturbance"];
  EXPECT_EQ(row["gpu_mhz"].dump(), "[1755.0,null]");
  EXPECT_EQ(row["gpu_memory_mhz"].dump(), "[3201.0,null]");
  EXPECT_EQ(row["gpu_power_w"].dump(), "[512.25,null]");
  EXPECT_EQ(row["gpu_temperature_c"].dump(), "[64.0,null]");
  EXPECT_EQ(row["gpu_clock_events"].dump(), R"json([["idle","power cap","heat (hw)"],[]])json");
  EXPECT_EQ(row["gpu_slowdowns"].dump(), R"json([["power cap","heat (hw)"],[]])json");
}

TEST(ClockEvents, HaveNames) {
  EXPECT_THAT(clock_event_names(0), ::testing::IsEmpty());
  EXPECT_THAT(clock_event_names(0x1 | 0x4 | 0x40), ::testing::ElementsAre("idle", "power cap", "heat (hw)"));
  EXPECT_THAT(clock_event_names(std::uint64_t{1} << 12), ::testing::ElementsAre("bit 12"));
}

TEST(ClockEvents, OnlySomeMeanThatTheGpuIsSlowedDown) {
  constexpr std::uint64_t kIdle = 0x1, kApplicationClocks = 0x2, kSyncBoost = 0x10, kDisplay = 0x100;
  EXPECT_EQ(slowdown_events(kIdle | kApplicationClocks | kSyncBoost | kDisplay), 0U);
  for (const std::uint64_t bit : {0x4, 0x8, 0x20, 0x40, 0x80}) EXPECT_EQ(slowdown_events(bit | kIdle), bit);
}

}  // namespace
}  // namespace kvlab
