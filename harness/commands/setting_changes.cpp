// Parses and applies changes of generation settings; the generation itself takes them between two steps.
#include "harness/commands/setting_changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/numbers.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

constexpr double kMaxTemperature = 1e6;

std::string where(const SettingChange& change) { return fmt::format("--at {}:{}", change.step, change.key); }

}  // namespace

SettingChange parse_change(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::size_t equals = text.find('=', colon == std::string_view::npos ? 0 : colon);
  if (colon == std::string_view::npos || equals == std::string_view::npos) {
    throw InputError(fmt::format("--at: \"{}\" is not STEP:key=value, as in 10:temperature=0.7", text));
  }
  SettingChange change;
  change.step = parse_integer("--at STEP", text.substr(0, colon), 0, kMaxCount);
  change.key = text.substr(colon + 1, equals - colon - 1);
  change.value = text.substr(equals + 1);
  return change;
}

GenerationSettings changed_settings(GenerationSettings settings, const SettingChange& change) {
  if (change.key == "temperature") {
    settings.sampling.temperature = parse_number(where(change), change.value, 0, kMaxTemperature);
  } else if (change.key == "top-k") {
    settings.sampling.top_k = parse_integer(where(change), change.value, 0, kMaxCount);
  } else if (change.key == "top-p") {
    settings.sampling.top_p = parse_number(where(change), change.value, 0, 1);
  } else if (change.key == "max-new-tokens") {
    settings.max_new_tokens = parse_integer(where(change), change.value, 0, kMaxCount);
  } else if (change.key == "stop") {
    settings.stops.clear();
    if (!change.value.empty()) settings.stops.push_back(change.value);
  } else if (change.key == "add-stop") {
    if (change.value.empty()) throw InputError(where(change) + ": a stop string cannot be empty");
    settings.stops.push_back(change.value);
  } else {
    throw InputError(
        fmt::format("--at: there is no setting \"{}\"; allowed are temperature, top-k, top-p, max-new-tokens, stop "
                    "(replaces the list), add-stop",
                    change.key));
  }
  return settings;
}

void check_changes(const GenerationSettings& settings, const std::vector<SettingChange>& changes) {
  check_sampling(settings.sampling);
  for (const std::string& stop : settings.stops) {
    if (stop.empty()) throw InputError("--stop: a stop string cannot be empty");
  }
  for (const SettingChange& change : changes) changed_settings(settings, change);
}

std::int64_t largest_token_limit(const GenerationSettings& settings, const std::vector<SettingChange>& changes) {
  std::int64_t limit = settings.max_new_tokens;
  for (const SettingChange& change : changes) {
    limit = std::max(limit, changed_settings(settings, change).max_new_tokens);
  }
  return limit;
}

bool changes_stops(const std::vector<SettingChange>& changes) {
  return std::any_of(changes.begin(), changes.end(),
                     [](const SettingChange& change) { return change.key == "stop" || change.key == "add-stop"; });
}

}  // namespace kvlab
