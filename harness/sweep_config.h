// The sweep file: what it may say, and the cases it stands for.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/case.h"
#include "harness/measurement.h"

namespace kvlab {

struct SweepAxis {
  std::string name;                 // a variant axis, or batch | depth | kv_fill | prompt_tokens | gen_tokens
  std::vector<std::string> values;  // as the axis's `set` takes them
};

/// Cases that have all of these values (of one axis: any of the listed).
using CaseSelector = std::vector<SweepAxis>;

struct SweepConfig {
  std::string name;
  std::vector<std::string> models;
  std::string prompt_file;  // "": seeded ids
  std::uint64_t seed = 1;
  std::vector<SweepAxis> axes;  // in the file's order
  std::vector<CaseSelector> exclude;
  RoundPolicy rounds;
  nlohmann::ordered_json json;  // the file itself, for the report
};

/// Throws InputError naming file and key; unknown keys and values are refused with what is allowed.
SweepConfig read_sweep_config(const std::string& path);
SweepConfig parse_sweep_config(const nlohmann::ordered_json& json, const std::string& path);

/// --filter AXIS=VALUE flags, gathered by axis. `model` is an axis too.
CaseSelector parse_filters(const std::vector<std::string>& filters);

/// Every combination, the first axis slowest, without the excluded and the filtered-out ones. Settings that a case does
/// not use (the page size of a cache without pages) take their default, and cases that become equal are kept once.
/// Throws InputError when nothing is left.
std::vector<Case> sweep_cases(const SweepConfig& config, const CaseSelector& filter, const std::string& device,
                              int threads);

/// One of `count` parts of a sweep; index from 1.
struct Shard {
  std::int64_t index = 1;
  std::int64_t count = 1;
};
/// "I/N". Throws InputError.
Shard parse_shard(const std::string& text);
/// Every count-th case, beginning with the index-th: each case is in exactly one shard, and neighbours, which cost
/// about the same, are spread. Throws InputError when that is none.
std::vector<Case> shard_cases(const std::vector<Case>& cases, const Shard& shard);

}  // namespace kvlab
