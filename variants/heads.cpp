#include <fmt/format.h>

#include "kernels/error.h"
#include "variants/variant.h"

namespace kvlab {

std::int64_t resolve_kv_heads(const Variant& variant, std::int64_t n_heads, std::int64_t model_kv_heads) {
  switch (variant.heads) {
    case HeadsKind::model:
      return model_kv_heads;
    case HeadsKind::mha:
      return n_heads;
    case HeadsKind::mqa:
      return 1;
    case HeadsKind::gqa:
      break;
  }
  const std::int64_t g = variant.gqa_kv_heads;
  const bool divides = g >= 1 && n_heads % g == 0;
  if (!divides || (g % model_kv_heads != 0 && model_kv_heads % g != 0)) {
    std::string allowed;
    for (std::int64_t candidate = 1; candidate <= n_heads; ++candidate) {
      if (n_heads % candidate != 0) continue;
      if (candidate % model_kv_heads != 0 && model_kv_heads % candidate != 0) continue;
      allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", candidate);
    }
    throw InputError(fmt::format("heads gqa:{}: a model of {} query and {} KV heads takes gqa:G with G one of {}", g,
                                 n_heads, model_kv_heads, allowed));
  }
  return g;
}

}  // namespace kvlab
