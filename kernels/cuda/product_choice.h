// Which code runs a product of few rows, our GEMV or cuBLAS: chosen once for a GPU, a shape and a version of both, by
// timing the two, and kept (choice_file.h), so that every row of a sweep and every worker uses the same. Knows no CUDA:
// whoever asks brings the stopwatch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/choice_file.h"
#include "kernels/dtype.h"
#include "kernels/gemv_setting.h"

namespace kvlab::cuda {

enum class ProductEngine { own, cublas };
std::string_view engine_name(ProductEngine engine);

/// x [n_rows, n_in] times a weight [n_out, n_in].
struct ProductShape {
  std::int64_t n_out = 0;
  std::int64_t n_in = 0;
  DType dtype = DType::f32;
  std::int64_t n_rows = 0;

  auto operator<=>(const ProductShape&) const = default;
};

/// Seconds of one product by this engine, the weight not in cache; nothing where there is no clock.
using TimeProduct = std::function<std::optional<double>(ProductEngine)>;

struct ProductChoice {
  ProductShape shape;
  ProductEngine engine = ProductEngine::own;
  std::optional<double> own_s;  // what was timed here; empty where nothing was
  std::optional<double> cublas_s;
  bool stored = false;  // by an earlier process, which timed it
};

/// What a stored choice holds for. The version of our kernel is raised when its speed changes.
std::string product_machine(const std::string& gpu, const std::string& cublas_version);

/// One device's choices. Used by one thread; other processes may use the same file.
class ProductChoices {
 public:
  /// `machine` is product_machine's. `file` is product_choices_path(), or empty to
  /// keep choices in memory only; `tell` hears once when it cannot be used.
  ProductChoices(GemvSetting setting, std::string machine, std::filesystem::path file, ChoiceFile::Tell tell);

  /// The engine of a shape, timed when it is first met and stored nowhere: not while a stream is captured. More rows
  /// than the GEMV takes: cuBLAS. Without a clock: own, not stored.
  ProductEngine engine_for(const ProductShape& shape, const TimeProduct& time_s);

  /// Every shape that was asked for with 1 … kGemvMaxRows rows, in order.
  std::vector<ProductChoice> made() const;
  GemvSetting setting() const { return setting_; }

 private:
  ProductChoice choose(const ProductShape& shape, const TimeProduct& time_s);

  GemvSetting setting_;
  std::string machine_;
  ChoiceFile file_;
  std::map<ProductShape, ProductChoice> made_;
};

/// For a report: the setting, and for `auto` what it chose for each shape and how it knew: "auto: own bf16 [6144,
/// 4096] x 1 (timed), cublas bf16 [4096, 14336] x 8 (stored), own bf16 [128256, 4096] x 1 (not timed)".
std::string describe(const ProductChoices& choices);

}  // namespace kvlab::cuda
