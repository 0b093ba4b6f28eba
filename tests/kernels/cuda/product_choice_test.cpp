// The choice between our GEMV and cuBLAS, with a stand-in for the stopwatch: made once, kept in a file that several
// processes share, and harmless when that file is not usable.
#include "kernels/cuda/product_choice.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/error.h"

namespace kvlab::cuda {
namespace {

namespace fs = std::filesystem;

constexpr ProductShape kShape{4096, 1024, DType::bf16, 1};

/// Times that are given, and how often they were asked for.
struct Stopwatch {
  double own_s = 1e-6;
  double cublas_s = 2e-6;
  int n_asked = 0;

  TimeProduct function() {
    return [this](ProductEngine engine) -> std::optional<double> {
      ++n_asked;
      return engine == ProductEngine::own ? own_s : cublas_s;
    };
  }
};

class CudaProductChoice : public testing::Test {
 protected:
  CudaProductChoice() : folder_(fs::temp_directory_path() / ("kvlab-choices-" + std::to_string(getpid()))) {}
  ~CudaProductChoice() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "cache" / "product_choices.txt"; }
  ProductChoices choices(GemvSetting setting = GemvSetting::measured,
                         const std::string& machine = product_machine("GPU", "1")) {
    return {setting, machine, file(), [this](const std::string& sentence) { told_.push_back(sentence); }};
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(file()).rdbuf();
    return all.str();
  }
  void write(const std::string& content) const {
    fs::create_directories(file().parent_path());
    std::ofstream(file()) << content;
  }

  fs::path folder_;
  std::vector<std::string> told_;
};

TEST_F(CudaProductChoice, TheQuickerOneIsMeasuredOnceAndHoldsInEveryProcess) {
  Stopwatch watch;
  watch.own_s = 3e-6;
  ProductChoices first = choices();
  EXPECT_EQ(first.engine_for(kShape, watch.function()), ProductEngine::cublas);
  watch.cublas_s = 4e-6;  // measured now, the other would win
  EXPECT_EQ(first.engine_for(kShape, watch.function()), ProductEngine::cublas);
  ProductChoices second = choices();
  EXPECT_EQ(second.engine_for(kShape, watch.function()), ProductEngine::cublas);
  EXPECT_EQ(describe(second), "auto: cublas bf16 [4096, 1024] x 1 (stored)");
  EXPECT_EQ(watch.n_asked, 2);
  EXPECT_EQ(text(),
            "kvlab choices 1\n"
            "GPU, cuBLAS 1, gemv 1 | bf16 [4096, 1024] x 1\tcublas own 3000.000000 ns, cublas 2000.000000 ns\n");
  EXPECT_TRUE(told_.empty());
}

TEST_F(CudaProductChoice, AnotherShapeTypeGpuOrVersionIsAnotherChoice) {
  Stopwatch watch;
  ProductChoices all = choices();
  int n_expected = 0;
  for (const ProductShape& shape :
       {kShape, ProductShape{4096, 1024, DType::f32, 1}, ProductShape{4096, 1024, DType::bf16, 2},
        ProductShape{1024, 4096, DType::bf16, 1}}) {
    all.engine_for(shape, watch.function());
    EXPECT_EQ(watch.n_asked, n_expected += 2);
  }
  choices(GemvSetting::measured, product_machine("GPU", "2")).engine_for(kShape, watch.function());
  EXPECT_EQ(watch.n_asked, n_expected + 2);
  EXPECT_EQ(describe(all),
            "auto: own bf16 [1024, 4096] x 1 (timed), own f32 [4096, 1024] x 1 (timed), "
            "own bf16 [4096, 1024] x 1 (timed), own bf16 [4096, 1024] x 2 (timed)");
}

TEST_F(CudaProductChoice, ForcedChoicesMeasureNothingAndAreNotKept) {
  Stopwatch watch;
  for (const GemvSetting setting : {GemvSetting::own, GemvSetting::cublas}) {
    ProductChoices forced = choices(setting);
    EXPECT_EQ(engine_name(forced.engine_for(kShape, watch.function())), setting_name(setting));
    EXPECT_EQ(describe(forced), setting_name(setting));
    EXPECT_EQ(forced.engine_for({4096, 1024, DType::bf16, 9}, watch.function()), ProductEngine::cublas)
        << "more rows than the GEMV takes";
  }
  EXPECT_EQ(watch.n_asked, 0);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(CudaProductChoice, WithoutAClockOrATimeItIsOwnAndNotKept) {
  const std::vector<TimeProduct> clocks = {
      [](ProductEngine) { return std::optional<double>(); },
      [](ProductEngine engine) { return std::optional<double>(engine == ProductEngine::own ? 1.0 : NAN); },
      [](ProductEngine) { return std::optional<double>(0.0); }};
  for (const TimeProduct& clock : clocks) EXPECT_EQ(choices().engine_for(kShape, clock), ProductEngine::own);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(CudaProductChoice, TheFirstOfTwoThatMeasureAtOnceWins) {
  Stopwatch watch;
  ProductChoices late = choices();
  const auto slow_measurement = [&](ProductEngine engine) -> std::optional<double> {
    if (engine == ProductEngine::cublas) choices().engine_for(kShape, watch.function());  // another process: own wins
    return engine == ProductEngine::own ? 2e-6 : 1e-6;                                    // ... and here cuBLAS would
  };
  EXPECT_EQ(late.engine_for(kShape, slow_measurement), ProductEngine::own);
  EXPECT_EQ(late.made().at(0).own_s, 2e-6);
}

TEST_F(CudaProductChoice, ProcessesThatStoreAtOnceKeepAllChoices) {
  constexpr int kProcesses = 4;
  constexpr int kShapes = 25;
  for (int process = 0; process < kProcesses; ++process) {
    if (fork() != 0) continue;
    Stopwatch watch;
    ProductChoices mine = choices();
    for (int i = 0; i < kShapes; ++i) mine.engine_for({process + 1, i + 1, DType::f32, 1}, watch.function());
    _exit(0);
  }
  for (int process = 0; process < kProcesses; ++process) wait(nullptr);
  Stopwatch watch;
  ProductChoices all = choices();
  for (int process = 0; process < kProcesses; ++process) {
    for (int i = 0; i < kShapes; ++i) all.engine_for({process + 1, i + 1, DType::f32, 1}, watch.function());
  }
  EXPECT_EQ(watch.n_asked, 0);
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), fs::directory_iterator()), 2)
      << "the file and its lock";
}

TEST_F(CudaProductChoice, ADamagedFileIsToldOnceAndReplaced) {
  const std::string good = "GPU, cuBLAS 1, gemv 1 | f32 [8, 8] x 1\tcublas\n";
  for (const std::string& content :
       {std::string("{\"json\": 1}"), std::string(), "kvlab choices 1\nno tab\n" + good,
        "kvlab choices 1\nGPU, cuBLAS 1, gemv 1 | bf16 [4096, 1024] x 1\tnonsense\n" + good,
        "kvlab choices 1\n" + good + "GPU, cuBLAS 1, gemv 1 | bf16 [4096, 1024] x 1\tcublas"}) {  // cut off
    SCOPED_TRACE(content);
    write(content);
    told_.clear();
    Stopwatch watch;
    ProductChoices mine = choices();
    EXPECT_EQ(mine.engine_for(kShape, watch.function()), ProductEngine::own);
    EXPECT_EQ(watch.n_asked, 2);
    ASSERT_EQ(told_.size(), 1U);
    EXPECT_EQ(told_[0].rfind(file().string(), 0), 0U) << told_[0];
    const bool keeps_good = content.find(good) != std::string::npos;
    EXPECT_EQ(mine.engine_for({8, 8, DType::f32, 1}, watch.function()),
              keeps_good ? ProductEngine::cublas : ProductEngine::own);
    EXPECT_EQ(choices().engine_for(kShape, watch.function()), ProductEngine::own);
    EXPECT_EQ(told_.size(), 1U) << "it is whole again";
  }
}

TEST_F(CudaProductChoice, AFolderThatCannotBeWrittenIsToldOnce) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "cache") << "a file where the folder should be";
  Stopwatch watch;
  ProductChoices mine = choices();
  EXPECT_EQ(mine.engine_for(kShape, watch.function()), ProductEngine::own);
  EXPECT_EQ(mine.engine_for({8, 8, DType::f32, 1}, watch.function()), ProductEngine::own);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("cannot be written"), std::string::npos) << told_[0];
}

TEST_F(CudaProductChoice, TheFileLiesInTheUsersCache) {
  const char* saved_home = std::getenv("HOME");
  const char* saved_cache = std::getenv("XDG_CACHE_HOME");
  const std::string home = saved_home == nullptr ? "" : saved_home;
  const std::string cache = saved_cache == nullptr ? "" : saved_cache;
  setenv("HOME", "/home/somebody", 1);
  setenv("XDG_CACHE_HOME", "/var/cache/somebody", 1);
  EXPECT_EQ(product_choices_path(), "/var/cache/somebody/kvlab/product_choices.txt");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(product_choices_path(), "/home/somebody/.cache/kvlab/product_choices.txt");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(product_choices_path(), "/home/somebody/.cache/kvlab/product_choices.txt");
  unsetenv("HOME");
  EXPECT_EQ(product_choices_path(), "");
  if (saved_home != nullptr) setenv("HOME", home.c_str(), 1);
  if (saved_cache != nullptr) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

TEST_F(CudaProductChoice, SettingsAreNamed) {
  for (const std::string text : {"auto", "own", "cublas"}) EXPECT_EQ(setting_name(parse_gemv_setting(text)), text);
  for (const std::string text : {"", "Own", "cutlass"}) {
    try {
      parse_gemv_setting(text);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()), "--gemv: there is no \"" + text + "\"; allowed are auto, own, cublas");
    }
  }
}

}  // namespace
}  // namespace kvlab::cuda
