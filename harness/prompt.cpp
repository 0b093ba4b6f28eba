// Builds prompts. Knows tokenizers and text files; decodes nothing.
#include "harness/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/output_file.h"
#include "kernels/error.h"
#include "kernels/random.h"

namespace kvlab {

namespace {

constexpr std::string_view kTurnStart = "<|im_start|>";
constexpr std::string_view kTurnEnd = "<|im_end|>";

/// The system message that a ChatML template puts in front when the conversation brings none; "" when it has none.
/// Templates write the line break as itself or escaped, and the text stands in quotes right behind it.
std::string default_system_message(std::string_view chat_template) {
  for (const std::string_view opening : {"<|im_start|>system\n", "<|im_start|>system\\n"}) {
    const std::size_t begin = chat_template.find(opening);
    if (begin == std::string_view::npos) continue;
    const std::string_view rest = chat_template.substr(begin + opening.size());
    const std::string_view message = rest.substr(0, rest.find(kTurnEnd));
    const bool literal = message.size() < rest.size() && message.find_first_of("'\"{}") == std::string_view::npos;
    if (literal) return std::string(message);
  }
  return "";
}

std::int32_t turn_marker(const Tokenizer& tokenizer, std::string_view piece) {
  const std::optional<std::int32_t> id = tokenizer.find_piece(piece);
  if (!id) throw InputError(fmt::format("--chat: the vocabulary has no piece {}, which ChatML needs", piece));
  return *id;
}

void append(std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

/// The path as given, or relative to the folder that holds configs/.
std::string find_prompt_file(const std::string& path) {
  const std::filesystem::path below_home = std::filesystem::path(kvlab_home()) / path;
  return !std::filesystem::exists(path) && std::filesystem::exists(below_home) ? below_home.string() : path;
}

/// `count` tokens of a stream, wrapping round at its end.
std::vector<std::int32_t> stream_part(const std::vector<std::int32_t>& stream, std::int64_t begin, std::int64_t count) {
  std::vector<std::int32_t> part;
  const auto size = static_cast<std::int64_t>(stream.size());
  for (std::int64_t i = 0; i < count; ++i) part.push_back(stream[static_cast<std::size_t>((begin + i) % size)]);
  return part;
}

}  // namespace

std::vector<std::int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, parse_special);
  const std::optional<std::int32_t> bos = tokenizer.bos_id();
  if (tokenizer.adds_bos() && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  return ids;
}

std::vector<std::int32_t> chat_ids(const Tokenizer& tokenizer, std::string_view message, bool parse_special) {
  const std::string chat_template = tokenizer.chat_template();
  if (chat_template.find(kTurnStart) == std::string::npos) {
    throw InputError(chat_template.empty()
                         ? "--chat: the model has no chat template; leave --chat out for plain continuation"
                         : "--chat: the model's chat template is not ChatML, the one form that kvlab knows");
  }
  const std::int32_t start = turn_marker(tokenizer, kTurnStart);
  const std::int32_t end = turn_marker(tokenizer, kTurnEnd);
  const std::vector<std::int32_t> line_break = tokenizer.encode("\n", false);
  std::vector<std::int32_t> ids;
  const auto add_turn = [&](const std::string& text, bool specials) {
    ids.push_back(start);
    append(ids, tokenizer.encode(text, specials));
    ids.push_back(end);
    append(ids, line_break);
  };
  const std::string system = default_system_message(chat_template);
  if (!system.empty()) add_turn("system\n" + system, false);
  add_turn("user\n" + std::string(message), parse_special);
  ids.push_back(start);
  append(ids, tokenizer.encode("assistant\n", false));
  const std::optional<std::int32_t> bos = tokenizer.bos_id();
  if (tokenizer.adds_bos() && bos && ids.front() != *bos) ids.insert(ids.begin(), *bos);
  return ids;
}

void check_ids(std::string_view where, const std::vector<std::int32_t>& ids, std::int64_t vocab_size) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    throw InputError(
        fmt::format("{}: id {} is not in the model's vocabulary; ids are 0 to {}", where, id, vocab_size - 1));
  }
}

std::int64_t choosable_ids(const Checkpoint& checkpoint) {
  const std::int64_t rows = checkpoint.config.vocab_size;
  return checkpoint.tokenizer ? std::min(rows, checkpoint.tokenizer->vocab_size()) : rows;
}

WorkloadTokens workload_tokens(const Checkpoint& checkpoint, const Workload& workload, const std::string& prompt_file,
                               std::uint64_t seed) {
  const std::int64_t depth = workload.kv_fill == KvFill::prefill ? workload.depth : 0;  // tokens that have ids
  const std::int64_t per_sequence = depth + workload.prompt_tokens;
  std::vector<std::int32_t> stream;
  if (!prompt_file.empty() && checkpoint.tokenizer) {
    const std::string path = find_prompt_file(prompt_file);
    stream = text_ids(*checkpoint.tokenizer, read_text_file("prompt file", path), false);
    const auto available = static_cast<std::int64_t>(stream.size());
    if (available < per_sequence) {
      throw InputError(
          fmt::format("prompt file {} has {} tokens; depth + prompt ask for {}", path, available, per_sequence));
    }
    check_ids(path, stream, checkpoint.config.vocab_size);
  } else {
    stream = seeded_ids(seed, per_sequence * workload.batch, choosable_ids(checkpoint));
  }
  WorkloadTokens tokens;
  tokens.draw = {seed, checkpoint.config.n_kv_heads};
  for (std::int64_t b = 0; b < workload.batch; ++b) {
    tokens.depth.push_back(stream_part(stream, b * per_sequence, depth));
    tokens.prompt.push_back(stream_part(stream, b * per_sequence + depth, workload.prompt_tokens));
  }
  return tokens;
}

std::vector<std::int32_t> seeded_ids(std::uint64_t seed, std::int64_t count, std::int64_t n_ids) {
  std::vector<std::int32_t> ids;
  std::uint64_t state = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(next_random(state) % static_cast<std::uint64_t>(n_ids)));
  }
  return ids;
}

}  // namespace kvlab
