// A tokenizer from `tokenizer.ggml.*` metadata: "gpt2" is the byte-level kind, "llama" the SentencePiece kind.
#include <fmt/format.h>

#include <cmath>

#include "kernels/error.h"
#include "model/files/gguf.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/special_names.h"

namespace kvlab {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kAddSpacePrefix = "tokenizer.ggml.add_space_prefix";
constexpr std::string_view kChatTemplate = "tokenizer.chat_template";

[[noreturn]] void fail(const GgufFile& file, std::string_view key, const std::string& fault) {
  throw InputError(fmt::format("{}: {}: {}", file.path(), key, fault));
}

std::shared_ptr<const Vocabulary> read_vocabulary(const GgufFile& file) {
  const std::vector<std::string_view> pieces = file.strings(kTokens);
  if (pieces.empty()) fail(file, kTokens, "the vocabulary is empty");
  std::vector<PieceType> types(pieces.size(), PieceType::normal);
  if (file.has(kTypes)) {
    const std::vector<std::int64_t> numbers = file.integers(kTypes);
    if (numbers.size() != pieces.size()) {
      fail(file, kTypes, fmt::format("{} entries for {} pieces", numbers.size(), pieces.size()));
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      // 0, "undefined", is written by some converters for ordinary pieces.
      if (numbers[i] < 0 || numbers[i] > 6)
        fail(file, kTypes, fmt::format("entry {} is {}, not 0 to 6", i, numbers[i]));
      if (numbers[i] != 0) types[i] = static_cast<PieceType>(numbers[i]);
    }
  }
  return std::make_shared<const Vocabulary>(pieces, std::move(types));
}

std::unique_ptr<const MergeRule> read_merges(const GgufFile& file, const Vocabulary& vocabulary) {
  const std::vector<std::string_view> lines = file.strings(kMerges);
  auto pairs = std::make_unique<RankedPairs>();
  pairs->reserve(lines.size());
  std::string joined;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t space = lines[i].find(' ', 1);
    if (space == std::string_view::npos) fail(file, kMerges, fmt::format("entry {} holds no pair", i));
    const std::string_view left = lines[i].substr(0, space);
    const std::string_view right = lines[i].substr(space + 1);
    joined.assign(left).append(right);
    const auto left_id = vocabulary.find(left);
    const auto right_id = vocabulary.find(right);
    const auto joined_id = vocabulary.find(joined);
    if (!left_id || !right_id || !joined_id) {
      fail(file, kMerges, fmt::format("entry {}, '{}', names a piece that {} does not have", i, lines[i], kTokens));
    }
    pairs->add(*left_id, *right_id, *joined_id);
  }
  return pairs;
}

std::unique_ptr<const MergeRule> read_scores(const GgufFile& file, std::shared_ptr<const Vocabulary> vocabulary) {
  std::vector<float> scores = file.numbers(kScores);
  if (static_cast<std::int64_t>(scores.size()) != vocabulary->size()) {
    fail(file, kScores, fmt::format("{} entries for {} pieces", scores.size(), vocabulary->size()));
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) fail(file, kScores, fmt::format("entry {} is not a number", i));
  }
  return std::make_unique<ScoredPieces>(std::move(vocabulary), std::move(scores));
}

std::optional<std::int32_t> read_id(const GgufFile& file, const Vocabulary& vocabulary, std::string_view name) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  if (!file.has(key)) return std::nullopt;
  const std::int64_t id = file.integer(key);
  if (id < 0 || id >= vocabulary.size()) {
    fail(file, key, fmt::format("{} is not an id of the {} pieces", id, vocabulary.size()));
  }
  return static_cast<std::int32_t>(id);
}

void read_policy(const GgufFile& file, bool adds_bos_by_default, TokenizerParts& parts) {
  const Vocabulary& vocabulary = *parts.vocabulary;
  parts.bos_id = read_id(file, vocabulary, "bos");
  parts.adds_bos = file.has(kAddBos) ? file.boolean(kAddBos) : adds_bos_by_default && parts.bos_id.has_value();
  if (parts.adds_bos && !parts.bos_id) {
    fail(file, kAddBos, "asks for a BOS, but tokenizer.ggml.bos_token_id is missing");
  }
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    if (const auto id = read_id(file, vocabulary, name)) add_ending(*id, parts.eos_ids);
  }
  add_named_endings(vocabulary, parts.eos_ids);
  if (file.has(kChatTemplate)) parts.chat_template = file.string(kChatTemplate);
}

void read_byte_level(const GgufFile& file, TokenizerParts& parts) {
  const std::string pre(file.has(kPre) ? file.string(kPre) : "default");
  const bool is_llama3 = pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3";
  parts.merges = read_merges(file, *parts.vocabulary);
  parts.form = byte_level_form(pretokenizer_by_name(pre, file.path()), false);
  parts.whole_words_first = is_llama3;
  read_policy(file, is_llama3, parts);
}

void read_sentence_piece(const GgufFile& file, TokenizerParts& parts) {
  const bool has_prefix = !file.has(kAddSpacePrefix) || file.boolean(kAddSpacePrefix);
  parts.merges = read_scores(file, parts.vocabulary);
  parts.form = space_mark_form(has_prefix);
  parts.unknown_id = read_id(file, *parts.vocabulary, "unknown");
  parts.fuse_unknown = true;
  read_policy(file, true, parts);
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufFile& file) {
  if (!file.has(kModel) && !file.has(kTokens)) return nullptr;
  const std::string_view model = file.string(kModel);
  if (model == "none" || model == "no_vocab") return nullptr;
  if (model != "gpt2" && model != "llama") {
    fail(file, kModel,
         fmt::format("'{}' is unknown; known are gpt2 (byte-level BPE), llama (SentencePiece BPE)", model));
  }
  TokenizerParts parts;
  parts.where = file.path();
  parts.vocabulary = read_vocabulary(file);
  if (model == "gpt2") {
    read_byte_level(file, parts);
  } else {
    read_sentence_piece(file, parts);
  }
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace kvlab
