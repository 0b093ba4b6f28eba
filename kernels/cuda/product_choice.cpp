#include "kernels/cuda/product_choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cuda/gemv.h"

namespace kvlab::cuda {

namespace {

constexpr int kGemvVersion = 1;

std::string shape_text(const ProductShape& shape) {
  return std::string(dtype_name(shape.dtype)) + " [" + std::to_string(shape.n_out) + ", " + std::to_string(shape.n_in) +
         "] x " + std::to_string(shape.n_rows);
}

/// A key is one line of the file without a tab.
std::string key_of(const std::string& machine, const ProductShape& shape) {
  std::string key = machine + " | " + shape_text(shape);
  std::replace_if(
      key.begin(), key.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return key;
}

std::string value_of(const ProductChoice& choice) {
  return std::string(engine_name(choice.engine)) + " own " + std::to_string(*choice.own_s * 1e9) + " ns, cublas " +
         std::to_string(*choice.cublas_s * 1e9) + " ns";
}

/// The choice that a stored value names; nothing when it names none.
std::optional<ProductEngine> stored_engine(const std::string& value) {
  const std::string name = value.substr(0, value.find(' '));
  if (name == engine_name(ProductEngine::own)) return ProductEngine::own;
  if (name == engine_name(ProductEngine::cublas)) return ProductEngine::cublas;
  return std::nullopt;
}

bool is_time(const std::optional<double>& seconds) { return seconds && std::isfinite(*seconds) && *seconds > 0; }

}  // namespace

std::string_view engine_name(ProductEngine engine) { return engine == ProductEngine::own ? "own" : "cublas"; }

std::string product_machine(const std::string& gpu, const std::string& cublas_version) {
  return gpu + ", cuBLAS " + cublas_version + ", gemv " + std::to_string(kGemvVersion);
}

ProductChoices::ProductChoices(GemvSetting setting, std::string machine, std::filesystem::path file,
                               ChoiceFile::Tell tell)
    : setting_(setting),
      machine_(std::move(machine)),
      file_(
          std::move(file), [](const std::string& value) { return stored_engine(value).has_value(); }, std::move(tell)) {
}

ProductEngine ProductChoices::engine_for(const ProductShape& shape, const TimeProduct& time_s) {
  if (!gemv_takes(shape.n_rows)) return ProductEngine::cublas;
  const auto found = made_.find(shape);
  if (found != made_.end()) return found->second.engine;
  return made_.emplace(shape, choose(shape, time_s)).first->second.engine;
}

ProductChoice ProductChoices::choose(const ProductShape& shape, const TimeProduct& time_s) {
  ProductChoice choice{shape, ProductEngine::own, {}, {}};
  if (setting_ != GemvSetting::measured) {
    choice.engine = setting_ == GemvSetting::own ? ProductEngine::own : ProductEngine::cublas;
    return choice;
  }
  const std::string key = key_of(machine_, shape);
  if (const auto stored = stored_engine(file_.find(key))) {
    choice.engine = *stored;
    choice.stored = true;
    return choice;
  }
  const std::optional<double> own_s = time_s(ProductEngine::own);
  const std::optional<double> cublas_s = is_time(own_s) ? time_s(ProductEngine::cublas) : std::nullopt;
  if (!is_time(own_s) || !is_time(cublas_s)) return choice;
  choice.own_s = own_s;
  choice.cublas_s = cublas_s;
  choice.engine = *cublas_s < *own_s ? ProductEngine::cublas : ProductEngine::own;
  choice.engine = stored_engine(file_.store(key, value_of(choice))).value_or(choice.engine);
  return choice;
}

std::vector<ProductChoice> ProductChoices::made() const {
  std::vector<ProductChoice> choices;
  for (const auto& [shape, choice] : made_) choices.push_back(choice);
  return choices;
}

std::string describe(const ProductChoices& choices) {
  const std::string setting(setting_name(choices.setting()));
  if (choices.setting() != GemvSetting::measured) return setting;
  std::string text;
  for (const ProductChoice& choice : choices.made()) {
    const char* source = choice.stored ? "stored" : choice.own_s ? "timed" : "not timed";
    text += (text.empty() ? ": " : ", ") + std::string(engine_name(choice.engine)) + " " + shape_text(choice.shape) +
            " (" + source + ")";
  }
  return setting + text;
}

}  // namespace kvlab::cuda
