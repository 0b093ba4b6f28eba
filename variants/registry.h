// The one list of axes and values. Command line, help, `kvlab list variants`, the sweep parser and the report's
// `variant` object all read it; adding a value is a pair of files and a line here.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "variants/variant.h"

namespace kvlab {

struct AxisValue {
  std::string name;      // "paged"; "gqa:G" and "N" stand for families of values
  std::string sentence;  // what it is and what it costs
};

struct Axis {
  std::string name;      // "page_size": the sweep file's and the report's key; the flag is "--page-size"
  std::string sentence;  // what the axis asks
  bool integer = false;  // takes an integer (report and sweep hold it as a number)
  std::vector<AxisValue> values;
  std::vector<std::string> proof_values;                // what `verify` tries beside the base's own value, each alone
  std::function<void(Variant&, std::string_view)> set;  // throws InputError naming axis, value and what is allowed
  std::function<std::string(const Variant&)> get;
};

/// Every axis in display order. `attention` sets both phases and comes before `prefill_attention` and
/// `decode_attention`; its `get` gives "naive", "fused", or "prefill+decode" such as "fused+naive" when the phases
/// differ.
const std::vector<Axis>& axes();

/// Throws InputError listing the axes when there is none of that name.
const Axis& find_axis(std::string_view name);

/// "--page-size" for "page_size".
std::string axis_flag(const Axis& axis);

/// A short name that holds only what differs from the defaults' silence: "paged16 fused+naive mha bf16/f32 ..." for
/// tables and logs. Cache, attention and heads are always named.
std::string variant_label(const Variant& variant);

/// Every variant of the proof (SPEC S21): {none, contiguous, paged, qkv} x the four attention pairings x {model, mha},
/// then each other value of each other axis alone, on top of `base`. Values that do not fit the model's heads are left
/// out.
std::vector<Variant> every_variant(const Variant& base, std::int64_t n_heads, std::int64_t model_kv_heads);

}  // namespace kvlab
