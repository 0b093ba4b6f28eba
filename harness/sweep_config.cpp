// Reads sweep files and multiplies their axes out.
#include "harness/sweep_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "harness/numbers.h"
#include "harness/output_file.h"
#include "kernels/error.h"
#include "model/files/strict_json.h"
#include "variants/registry.h"

namespace kvlab {

namespace {

constexpr std::size_t kMaxValues = 1000;
constexpr std::size_t kMaxCases = 10000;

using Json = nlohmann::ordered_json;

struct WorkloadAxis {
  const char* name;
  std::int64_t Workload::*member;
  std::int64_t least;
};
constexpr WorkloadAxis kWorkloadAxes[] = {{"batch", &Workload::batch, 1},
                                          {"depth", &Workload::depth, 0},
                                          {"prompt_tokens", &Workload::prompt_tokens, 1},
                                          {"gen_tokens", &Workload::gen_tokens, 1}};

constexpr std::string_view kKvFillAxis = "kv_fill";

const WorkloadAxis* find_workload_axis(std::string_view name) {
  for (const WorkloadAxis& axis : kWorkloadAxes) {
    if (name == axis.name) return &axis;
  }
  return nullptr;
}

std::string allowed_axes(bool with_model) {
  std::vector<std::string> names;
  if (with_model) names.emplace_back("model");
  for (const WorkloadAxis& axis : kWorkloadAxes) names.emplace_back(axis.name);
  names.emplace_back(kKvFillAxis);
  for (const Axis& axis : axes()) names.push_back(axis.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_axis(std::string_view name) {
  const auto named = [&](const Axis& axis) { return axis.name == name; };
  return find_workload_axis(name) != nullptr || name == kKvFillAxis || std::any_of(axes().begin(), axes().end(), named);
}

void apply(Case& spec, const std::string& axis, const std::string& value) {
  if (const WorkloadAxis* workload = find_workload_axis(axis)) {
    spec.workload.*workload->member = parse_integer(axis, value, workload->least, kMaxCount);
  } else if (axis == kKvFillAxis) {
    spec.workload.kv_fill = parse_kv_fill(axis, value);
  } else {
    find_axis(axis).set(spec.variant, value);
  }
}

std::string value_of(const Case& spec, const std::string& axis) {
  if (axis == "model") return spec.model;
  if (const WorkloadAxis* workload = find_workload_axis(axis)) return std::to_string(spec.workload.*workload->member);
  if (axis == kKvFillAxis) return std::string(kv_fill_name(spec.workload.kv_fill));
  return find_axis(axis).get(spec.variant);
}

void refuse_unknown_keys(const Json& object, const std::vector<std::string>& allowed, const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    throw InputError(fmt::format("{}: unknown key \"{}\"; allowed are {}", where, key, fmt::join(allowed, ", ")));
  }
}

std::int64_t json_integer(const Json& value, const std::string& where, std::int64_t least) {
  if (!value.is_number_integer()) throw InputError(fmt::format("{}: {} is not a whole number", where, value.dump()));
  return parse_integer(where, value.dump(), least, kMaxCount);
}

/// A value of an axis as text, checked by trying it.
std::string axis_value(const Json& value, const std::string& axis, const std::string& where) {
  if (!value.is_string() && !value.is_number_integer()) {
    throw InputError(fmt::format("{}: {} is neither a name nor a whole number", where, value.dump()));
  }
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  try {
    Case scratch;
    apply(scratch, axis, text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", where, error.what()));
  }
  return text;
}

std::vector<std::string> range_values(const Json& range, const std::string& where) {
  refuse_unknown_keys(range, {"from", "to", "times", "step"}, where);
  if (!range.contains("from") || !range.contains("to") || range.contains("times") == range.contains("step")) {
    throw InputError(where + ": a range is {\"from\", \"to\", \"times\"} or {\"from\", \"to\", \"step\"}");
  }
  const bool multiplies = range.contains("times");
  const std::int64_t from = json_integer(range["from"], where + ".from", multiplies ? 1 : 0);
  const std::int64_t to = json_integer(range["to"], where + ".to", from);
  const std::int64_t by =
      multiplies ? json_integer(range["times"], where + ".times", 2) : json_integer(range["step"], where + ".step", 1);
  std::vector<std::string> values;
  for (std::int64_t value = from; value <= to; value = multiplies ? value * by : value + by) {
    values.push_back(std::to_string(value));
    if (values.size() > kMaxValues) {
      throw InputError(fmt::format("{}: the range has more than {} values", where, kMaxValues));
    }
  }
  return values;
}

SweepAxis parse_axis(const std::string& name, const Json& json, const std::string& where) {
  if (!is_axis(name)) throw InputError(fmt::format("{}: unknown axis; allowed are {}", where, allowed_axes(false)));
  SweepAxis axis{name, {}};
  Json values = json;
  if (json.is_object()) values = range_values(json, where);
  if (!values.is_array() || values.empty()) throw InputError(where + ": an axis is a list with at least one value");
  for (const Json& value : values) {
    const std::string text = axis_value(value, name, where);
    if (std::find(axis.values.begin(), axis.values.end(), text) != axis.values.end()) {
      throw InputError(fmt::format("{}: {} is listed twice", where, text));
    }
    axis.values.push_back(text);
  }
  return axis;
}

std::vector<SweepAxis> parse_axes(const Json& json, const std::string& where) {
  if (!json.is_object()) throw InputError(where + ": is not an object of axes");
  std::vector<SweepAxis> result;
  for (const auto& [name, values] : json.items()) result.push_back(parse_axis(name, values, where + "." + name));
  for (const char* needed : {"prompt_tokens", "gen_tokens"}) {
    if (!json.contains(needed)) throw InputError(fmt::format("{}: {} is missing", where, needed));
  }
  if (json.contains("attention") && (json.contains("prefill_attention") || json.contains("decode_attention"))) {
    throw InputError(where +
                     ": attention sets both phases; give either attention, or prefill_attention and "
                     "decode_attention");
  }
  return result;
}

CaseSelector parse_selector(const Json& json, const std::string& where) {
  if (!json.is_object() || json.empty()) throw InputError(where + ": is not an object of axes with a value each");
  CaseSelector selector;
  for (const auto& [name, value] : json.items()) {
    if (name == "model" && value.is_string()) {
      selector.push_back({name, {value.get<std::string>()}});
      continue;
    }
    if (!is_axis(name)) {
      throw InputError(fmt::format("{}.{}: unknown axis; allowed are {}", where, name, allowed_axes(true)));
    }
    selector.push_back(parse_axis(name, value.is_array() ? value : Json::array({value}), where + "." + name));
  }
  return selector;
}

RoundPolicy parse_rounds(const Json& json, const std::string& where) {
  if (!json.is_object()) throw InputError(where + ": is not an object");
  refuse_unknown_keys(json, {"min", "max", "target_ci", "budget_s", "timeout_s"}, where);
  const auto number = [&](const char* key, double fallback, double high) {
    if (!json.contains(key)) return fallback;
    if (!json[key].is_number()) throw InputError(fmt::format("{}.{}: is not a number", where, key));
    return parse_number(where + "." + key, json[key].dump(), 0, high);
  };
  RoundPolicy policy;
  if (json.contains("min")) policy.min = json_integer(json["min"], where + ".min", 1);
  policy.max = std::max(policy.max, policy.min);
  if (json.contains("max")) policy.max = json_integer(json["max"], where + ".max", policy.min);
  policy.target_ci = number("target_ci", policy.target_ci, 1);
  policy.budget_s = number("budget_s", policy.budget_s, 1e9);
  policy.timeout_s = number("timeout_s", std::max(policy.timeout_s, policy.budget_s), 1e9);
  return policy;
}

std::string text_member(const Json& json, const char* key, const std::string& path) {
  if (!json[key].is_string()) throw InputError(fmt::format("{}: {} is not a text", path, key));
  return json[key].get<std::string>();
}

bool selects(const CaseSelector& selector, const Case& spec) {
  return std::all_of(selector.begin(), selector.end(), [&](const SweepAxis& axis) {
    const std::string value = value_of(spec, axis.name);
    return std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end();
  });
}

/// Settings that the case does not use take their default, so that equal work has one name.
Case normalised(Case spec) {
  const Variant defaults;
  if (spec.variant.cache != CacheKind::paged) spec.variant.page_size = defaults.page_size;
  if (spec.variant.cache == CacheKind::none) {
    spec.variant.kv_dtype = defaults.kv_dtype;
    spec.variant.kv_capacity = defaults.kv_capacity;
    spec.variant.prefill_chunk = defaults.prefill_chunk;
  }
  if (spec.workload.depth == 0) spec.workload.kv_fill = KvFill::prefill;
  return spec;
}

}  // namespace

SweepConfig read_sweep_config(const std::string& path) {
  const std::string text = read_text_file("sweep file", path);
  constexpr int kMaxDepth = 8;
  parse_strict_json(text, path, kMaxDepth);  // refuses what the ordered parse would let pass, such as a key given twice
  return parse_sweep_config(Json::parse(text), path);
}

SweepConfig parse_sweep_config(const Json& json, const std::string& path) {
  if (!json.is_object()) throw InputError(path + ": a sweep file is an object");
  refuse_unknown_keys(json, {"name", "models", "prompt_file", "seed", "axes", "exclude", "rounds"}, path);
  for (const char* needed : {"name", "models", "axes"}) {
    if (!json.contains(needed)) throw InputError(fmt::format("{}: {} is missing", path, needed));
  }
  SweepConfig config;
  config.json = json;
  config.name = text_member(json, "name", path);
  if (json.contains("prompt_file")) config.prompt_file = text_member(json, "prompt_file", path);
  if (json.contains("seed")) config.seed = static_cast<std::uint64_t>(json_integer(json["seed"], path + ": seed", 0));
  if (!json["models"].is_array() || json["models"].empty()) {
    throw InputError(path + ": models is a list with at least one model");
  }
  for (const Json& model : json["models"]) {
    if (!model.is_string()) throw InputError(fmt::format("{}: models: {} is not a text", path, model.dump()));
    if (std::count(config.models.begin(), config.models.end(), model.get<std::string>()) > 0) {
      throw InputError(fmt::format("{}: models: {} is listed twice", path, model.dump()));
    }
    config.models.push_back(model.get<std::string>());
  }
  config.axes = parse_axes(json["axes"], path + ": axes");
  if (json.contains("exclude")) {
    if (!json["exclude"].is_array()) throw InputError(path + ": exclude is not a list");
    for (const Json& entry : json["exclude"]) config.exclude.push_back(parse_selector(entry, path + ": exclude"));
  }
  if (json.contains("rounds")) config.rounds = parse_rounds(json["rounds"], path + ": rounds");
  return config;
}

CaseSelector parse_filters(const std::vector<std::string>& filters) {
  CaseSelector selector;
  for (const std::string& filter : filters) {
    const std::size_t equals = filter.find('=');
    const std::string name = filter.substr(0, equals);
    if (equals == std::string::npos || (name != "model" && !is_axis(name))) {
      throw InputError(fmt::format("--filter: \"{}\" is not AXIS=VALUE; axes are {}", filter, allowed_axes(true)));
    }
    const std::string value = filter.substr(equals + 1);
    if (name != "model") axis_value(Json(value), name, "--filter " + filter);
    const auto known =
        std::find_if(selector.begin(), selector.end(), [&](const SweepAxis& axis) { return axis.name == name; });
    if (known == selector.end()) {
      selector.push_back({name, {value}});
    } else {
      known->values.push_back(value);
    }
  }
  return selector;
}

std::vector<Case> sweep_cases(const SweepConfig& config, const CaseSelector& filter, const std::string& device,
                              int threads) {
  std::vector<Case> cases;
  for (const std::string& model : config.models) {
    Case base;
    base.model = model;
    base.device = device;
    base.threads = threads;
    base.seed = config.seed;
    cases.push_back(base);
  }
  for (const SweepAxis& axis : config.axes) {
    std::vector<Case> multiplied;
    for (const Case& spec : cases) {
      for (const std::string& value : axis.values) {
        multiplied.push_back(spec);
        apply(multiplied.back(), axis.name, value);
      }
    }
    cases = std::move(multiplied);
    if (cases.size() > kMaxCases) {
      throw InputError(fmt::format("the axes multiply to more than {} cases; split the sweep", kMaxCases));
    }
  }
  std::vector<Case> kept;
  for (const Case& combination : cases) {
    const bool excluded = std::any_of(config.exclude.begin(), config.exclude.end(),
                                      [&](const CaseSelector& selector) { return selects(selector, combination); });
    const Case spec = normalised(combination);
    if (!excluded && selects(filter, combination) && std::find(kept.begin(), kept.end(), spec) == kept.end()) {
      kept.push_back(spec);
    }
  }
  if (kept.empty()) throw InputError("no case is left: exclude and --filter leave nothing of the axes");
  return kept;
}

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) throw InputError(fmt::format("--shard: \"{}\" is not I/N, such as 1/4", text));
  Shard shard;
  shard.count = parse_integer("--shard", text.substr(slash + 1), 1, kMaxCount);
  shard.index = parse_integer("--shard", text.substr(0, slash), 1, shard.count);
  return shard;
}

std::vector<Case> shard_cases(const std::vector<Case>& cases, const Shard& shard) {
  std::vector<Case> own;
  for (auto i = static_cast<std::size_t>(shard.index - 1); i < cases.size();
       i += static_cast<std::size_t>(shard.count)) {
    own.push_back(cases[i]);
  }
  if (own.empty()) {
    throw InputError(fmt::format("--shard: {}/{} has no case; there are {}", shard.index, shard.count, cases.size()));
  }
  return own;
}

}  // namespace kvlab
