// The pipeline of a tokenizer.json around its model: normalizer, pre_tokenizer, post_processor, decoder.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/tokenizer/json_node.h"
#include "model/tokenizer/text_form.h"

namespace kvlab {

/// Throws InputError naming a component that is unknown, or a setting of one that would change text for good.
std::unique_ptr<TextForm> read_text_form(const JsonNode& file);

/// The piece that the post_processor puts in front of a text, if any. What it puts behind is left out: a prompt is to
/// be continued.
std::optional<std::string> read_leading_piece(const JsonNode& file);

}  // namespace kvlab
