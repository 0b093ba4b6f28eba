// `--at STEP:key=value`: settings that change while a generation runs (SPEC S9).
#pragma once

#include <string_view>
#include <vector>

#include "harness/commands/commands.h"

namespace kvlab {

/// "10:temperature=0.7". STEP 0 is the first generated token. Throws InputError saying what is allowed.
SettingChange parse_change(std::string_view text);

/// The settings after one change. Throws InputError naming the flag, the key and the value.
GenerationSettings changed_settings(GenerationSettings settings, const SettingChange& change);

/// Throws the error that applying the changes one after another would meet, before any work is done.
void check_changes(const GenerationSettings& settings, const std::vector<SettingChange>& changes);

/// The largest token limit that holds at any time: what the cache must have room for.
std::int64_t largest_token_limit(const GenerationSettings& settings, const std::vector<SettingChange>& changes);

bool changes_stops(const std::vector<SettingChange>& changes);

}  // namespace kvlab
