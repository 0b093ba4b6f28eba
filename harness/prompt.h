// Token ids for prompts: from text as the model wants it, in its chat form, or drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.h"
#include "model/checkpoint.h"
#include "model/decoder.h"

namespace kvlab {

/// Ids of plain text, with the BOS in front when the model says so and the text does not already begin with it.
std::vector<std::int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text, bool parse_special);

/// One user message in ChatML, after the template's default system message, up to where the assistant's turn begins.
/// The message itself is plain text unless `parse_special`. Throws InputError when the chat template is no ChatML.
std::vector<std::int32_t> chat_ids(const Tokenizer& tokenizer, std::string_view message, bool parse_special);

/// Throws InputError naming `where`, the id and the range.
void check_ids(std::string_view where, const std::vector<std::int32_t>& ids, std::int64_t vocab_size);

/// Ids that the sampler may choose: the tokenizer's pieces, or the whole vocabulary without one.
std::int64_t choosable_ids(const Checkpoint& checkpoint);

/// What a workload feeds: sequence b starts b prompts further into the stream, so that sequences differ.
struct WorkloadTokens {
  std::vector<std::vector<std::int32_t>> depth;   // [batch][depth]; with random K and V [batch][0]
  std::vector<std::vector<std::int32_t>> prompt;  // [batch][prompt_tokens]
  KvDraw draw;                                    // for random K and V
};

/// From a text file when the checkpoint has a tokenizer and `prompt_file` is not "": the first depth + prompt tokens,
/// refused with both numbers when there are fewer (later sequences wrap round). Otherwise seeded ids.
WorkloadTokens workload_tokens(const Checkpoint& checkpoint, const Workload& workload, const std::string& prompt_file,
                               std::uint64_t seed);

/// `count` ids drawn evenly from [0, n_ids).
std::vector<std::int32_t> seeded_ids(std::uint64_t seed, std::int64_t count, std::int64_t n_ids);

}  // namespace kvlab
