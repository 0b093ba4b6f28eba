// Names by which vocabularies call the pieces that end a text or a turn, for files that name only one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/tokenizer/vocabulary.h"

namespace kvlab {

/// Adds an id that is not there yet.
void add_ending(std::int32_t id, std::vector<std::int32_t>& eos_ids);

/// Adds the control pieces with a well-known ending name to `eos_ids`.
void add_named_endings(const Vocabulary& vocabulary, std::vector<std::int32_t>& eos_ids);

}  // namespace kvlab
