// Recognises the components that byte-level and SentencePiece-style BPE files are made of, and refuses all others.
#include "model/tokenizer/json_components.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvlab {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

struct Pipeline {
  bool to_nfc = false;
  bool marks_spaces = false;
  bool dummy_space = false;
  bool byte_level = false;
  std::vector<SplitPattern> patterns;
};

[[noreturn]] void fail_unknown(const JsonNode& component, const std::string& type, std::string_view known) {
  component.fail(fmt::format("the component '{}' is not supported; known are {}", type, known));
}

bool is_string_pattern(const JsonNode& component, std::string_view text) {
  const auto pattern = component.at("pattern").find("String");
  return pattern && pattern->string() == text;
}

void read_normalizer(const JsonNode& component, Pipeline& pipeline) {
  const std::string type = component.at("type").string();
  if (type == "Sequence") {
    for (const JsonNode& part : component.at("normalizers").items()) read_normalizer(part, pipeline);
  } else if (type == "NFC") {
    pipeline.to_nfc = true;
  } else if (type == "Prepend") {
    if (component.at("prepend").string() != kSpaceMark) component.fail("Prepend may only put '▁' in front");
    pipeline.dummy_space = true;
  } else if (type == "Replace") {
    const bool marks = is_string_pattern(component, " ") && component.at("content").string() == kSpaceMark;
    if (!marks) component.fail("Replace may only turn ' ' into '▁'");
    pipeline.marks_spaces = true;
  } else {
    fail_unknown(component, type, "NFC, Prepend, Replace, Sequence");
  }
}

void read_split(const JsonNode& component, Pipeline& pipeline) {
  // After the normalizer has marked every space, a split at spaces finds nothing (Gemma's files hold one).
  if (pipeline.marks_spaces && is_string_pattern(component, " ")) return;
  const std::string behavior = component.at("behavior").string();
  if (behavior != "Isolated" || component.boolean_or("invert", false)) {
    component.fail(fmt::format("Split must be Isolated and not inverted, but is {}", behavior));
  }
  const JsonNode pattern = component.at("pattern").at("Regex");
  pipeline.patterns.emplace_back(pattern.string(), "tokenizer.json: Split");
}

void read_pre_tokenizer(const JsonNode& component, Pipeline& pipeline) {
  const std::string type = component.at("type").string();
  if (pipeline.byte_level) component.fail("nothing may follow ByteLevel");
  if (type == "Sequence") {
    for (const JsonNode& part : component.at("pretokenizers").items()) read_pre_tokenizer(part, pipeline);
  } else if (type == "ByteLevel") {
    if (component.boolean_or("add_prefix_space", true)) {
      component.fail("add_prefix_space is not supported: text could not be told from text with a space in front");
    }
    if (component.boolean_or("use_regex", true)) pipeline.patterns.emplace_back(kGpt2Pattern, "ByteLevel");
    pipeline.byte_level = true;
  } else if (type == "Digits") {
    const bool single = component.boolean_or("individual_digits", false);
    pipeline.patterns.emplace_back(single ? kSingleDigitPattern : kDigitRunPattern, "Digits");
  } else if (type == "Split") {
    read_split(component, pipeline);
  } else {
    fail_unknown(component, type, "ByteLevel, Digits, Split, Sequence");
  }
}

/// Decoding is always the inverse of encoding; a decoder is only looked at for parts that would do something else.
void check_decoder(const JsonNode& component) {
  constexpr std::array<std::string_view, 5> kInverses = {"ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip"};
  const std::string type = component.at("type").string();
  if (type == "Sequence") {
    for (const JsonNode& part : component.at("decoders").items()) check_decoder(part);
  } else if (std::find(kInverses.begin(), kInverses.end(), type) == kInverses.end()) {
    fail_unknown(component, type, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Sequence");
  }
}

std::optional<std::string> leading_piece(const JsonNode& component) {
  const std::string type = component.at("type").string();
  if (type == "ByteLevel") return std::nullopt;
  std::optional<std::string> piece;
  if (type == "Sequence") {
    for (const JsonNode& part : component.at("processors").items()) {
      if (auto found = leading_piece(part)) piece = std::move(found);
    }
  } else if (type == "TemplateProcessing") {
    for (const JsonNode& entry : component.at("single").items()) {
      const auto special = entry.find("SpecialToken");
      if (!special) break;
      if (piece) entry.fail("only one token can be put in front of a text");
      piece = special->at("id").string();
    }
  } else {
    fail_unknown(component, type, "ByteLevel, TemplateProcessing, Sequence");
  }
  return piece;
}

}  // namespace

std::unique_ptr<TextForm> read_text_form(const JsonNode& file) {
  Pipeline pipeline;
  if (const auto normalizer = file.find("normalizer")) read_normalizer(*normalizer, pipeline);
  if (const auto pre_tokenizer = file.find("pre_tokenizer")) read_pre_tokenizer(*pre_tokenizer, pipeline);
  if (const auto decoder = file.find("decoder")) check_decoder(*decoder);
  if (pipeline.byte_level == pipeline.marks_spaces) {
    file.fail("must have either a ByteLevel pre_tokenizer or a normalizer that replaces ' ' by '▁'");
  }
  if (pipeline.byte_level) {
    if (pipeline.dummy_space) file.fail("the normalizer Prepend does not go with ByteLevel");
    return byte_level_form(Pretokenizer(std::move(pipeline.patterns)), pipeline.to_nfc);
  }
  if (pipeline.to_nfc) file.fail("the normalizer NFC goes only with ByteLevel");
  if (!pipeline.patterns.empty()) file.fail("a pre_tokenizer that splits goes only with ByteLevel");
  return space_mark_form(pipeline.dummy_space);
}

std::optional<std::string> read_leading_piece(const JsonNode& file) {
  const auto post_processor = file.find("post_processor");
  return post_processor ? leading_piece(*post_processor) : std::nullopt;
}

}  // namespace kvlab
