// What --gemv says: which code runs a CUDA backend's products of few rows. kernels/cuda/product_choice.h does the
// choosing.
#pragma once

#include <string>
#include <string_view>

#include "kernels/error.h"

namespace kvlab {

/// `measured`: the quicker one of each shape; the others force one.
enum class GemvSetting { measured, own, cublas };

constexpr std::string_view setting_name(GemvSetting setting) {
  switch (setting) {
    case GemvSetting::own:
      return "own";
    case GemvSetting::cublas:
      return "cublas";
    default:
      return "auto";
  }
}

/// Throws InputError naming --gemv and what it takes.
inline GemvSetting parse_gemv_setting(const std::string& text) {
  for (const GemvSetting setting : {GemvSetting::measured, GemvSetting::own, GemvSetting::cublas}) {
    if (text == setting_name(setting)) return setting;
  }
  throw InputError("--gemv: there is no \"" + text + "\"; allowed are auto, own, cublas");
}

}  // namespace kvlab
