// A tokenizer from a Hugging Face folder: tokenizer.json, and tokenizer_config.json beside it for the policy.
#include <fmt/format.h>

#include <filesystem>

#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/json_components.h"
#include "model/tokenizer/json_node.h"
#include "model/tokenizer/special_names.h"
#include "model/tokenizer/tokenizer.h"

namespace kvlab {
namespace {

namespace fs = std::filesystem;

/// Ids may have holes, but not so many that a wrong number would take the memory.
constexpr std::int64_t kMaxHoles = 65536;

class PieceTable {
 public:
  explicit PieceTable(std::size_t n_entries) : limit_(static_cast<std::int64_t>(n_entries) + kMaxHoles) {}

  /// `piece` outlives the table.
  void set(const JsonNode& where, const nlohmann::json& id, std::string_view piece, PieceType type) {
    if (!id.is_number_integer() || id < 0 || id >= limit_) {
      where.fail(fmt::format("the id of '{}' must be an integer from 0 to {}", piece, limit_ - 1));
    }
    const auto index = id.get<std::size_t>();
    if (index >= pieces_.size()) {
      pieces_.resize(index + 1);
      types_.resize(index + 1, PieceType::normal);
    }
    if (!pieces_[index].empty() && pieces_[index] != piece) {
      where.fail(fmt::format("id {} is given to '{}' and to '{}'", index, pieces_[index], piece));
    }
    pieces_[index] = piece;
    types_[index] = type;
  }

  std::shared_ptr<const Vocabulary> finish() && { return std::make_shared<Vocabulary>(pieces_, std::move(types_)); }

 private:
  std::int64_t limit_;
  std::vector<std::string_view> pieces_;
  std::vector<PieceType> types_;
};

void add_added_tokens(const JsonNode& added, PieceTable& table) {
  for (const JsonNode& token : added.items()) {
    const JsonNode content = token.at("content");
    const std::string name = content.string();
    for (const char* setting : {"lstrip", "rstrip", "single_word"}) {
      if (!token.boolean_or(setting, false)) continue;
      token.fail(
          fmt::format("'{}' sets {}, which is not supported: decoding could not give the text back", name, setting));
    }
    if (name.empty()) content.fail("must not be empty");
    const PieceType type = token.boolean_or("special", false) ? PieceType::control : PieceType::user_defined;
    table.set(token, token.at("id").json(), content.json().get_ref<const std::string&>(), type);
  }
}

std::shared_ptr<const Vocabulary> read_vocabulary(const JsonNode& file, const JsonNode& model) {
  const JsonNode vocab = model.at("vocab");
  if (!vocab.json().is_object()) vocab.fail("must be an object of pieces and ids");
  const auto added = file.find("added_tokens");
  const bool byte_fallback = model.boolean_or("byte_fallback", false);
  PieceTable table(vocab.json().size() + (added ? added->json().size() : 0));
  for (auto entry = vocab.json().begin(); entry != vocab.json().end(); ++entry) {
    const bool is_byte = byte_fallback && parse_byte_piece(entry.key());
    table.set(vocab, entry.value(), entry.key(), is_byte ? PieceType::byte : PieceType::normal);
  }
  if (added) add_added_tokens(*added, table);
  return std::move(table).finish();
}

struct PiecePair {
  std::string_view left;
  std::string_view right;
};

std::optional<PiecePair> parse_merge(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return PiecePair{merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (!merge.is_string()) return std::nullopt;
  const std::string_view text = merge.get_ref<const std::string&>();
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return PiecePair{text.substr(0, space), text.substr(space + 1)};
}

std::unique_ptr<const MergeRule> read_merges(const JsonNode& model, const Vocabulary& vocabulary) {
  const JsonNode merges = model.at("merges");
  if (!merges.json().is_array()) merges.fail("must be a list");
  auto pairs = std::make_unique<RankedPairs>();
  pairs->reserve(merges.json().size());
  std::string joined;
  for (std::size_t i = 0; i < merges.json().size(); ++i) {
    const auto pair = parse_merge(merges.json()[i]);
    if (!pair) merges.fail(fmt::format("entry {} must be \"left right\" or [\"left\", \"right\"]", i));
    joined.assign(pair->left).append(pair->right);
    const auto left = vocabulary.find(pair->left);
    const auto right = vocabulary.find(pair->right);
    const auto whole = vocabulary.find(joined);
    if (!left || !right || !whole) {
      merges.fail(
          fmt::format("entry {}, '{}' and '{}', names a piece that vocab does not have", i, pair->left, pair->right));
    }
    pairs->add(*left, *right, *whole);
  }
  return pairs;
}

void read_model(const JsonNode& file, TokenizerParts& parts) {
  const JsonNode model = file.at("model");
  if (const auto type = model.find("type"); type && type->string() != "BPE") {
    type->fail(fmt::format("'{}' is not supported; known is BPE", type->string()));
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto setting = model.find(affix);
    if (setting && !setting->string().empty()) setting->fail("is not supported");
  }
  parts.vocabulary = read_vocabulary(file, model);
  parts.merges = read_merges(model, *parts.vocabulary);
  parts.whole_words_first = model.boolean_or("ignore_merges", false);
  parts.fuse_unknown = model.boolean_or("fuse_unk", false);
  if (const auto unknown = model.find("unk_token")) {
    parts.unknown_id = parts.vocabulary->find(unknown->string());
    if (!parts.unknown_id) unknown->fail(fmt::format("'{}' is not in the vocabulary", unknown->string()));
  }
}

/// A token named by its spelling, or by an object with its spelling as `content`.
std::optional<std::int32_t> named_token(const JsonNode& config, const std::string& key, const Vocabulary& vocabulary) {
  const auto token = config.find(key);
  if (!token) return std::nullopt;
  const std::string name = token->json().is_object() ? token->at("content").string() : token->string();
  const auto id = vocabulary.find(name);
  if (!id) token->fail(fmt::format("'{}' is not in the vocabulary", name));
  return id;
}

std::string read_chat_template(const JsonNode& config) {
  const auto chat = config.find("chat_template");
  if (!chat) return "";
  if (!chat->json().is_array()) return chat->string();
  for (const JsonNode& entry : chat->items()) {
    if (entry.at("name").string() == "default") return entry.at("template").string();
  }
  return "";
}

void read_config(const JsonNode& config, TokenizerParts& parts) {
  if (const auto bos = named_token(config, "bos_token", *parts.vocabulary)) parts.bos_id = bos;
  if (const auto eos = named_token(config, "eos_token", *parts.vocabulary)) add_ending(*eos, parts.eos_ids);
  parts.adds_bos = config.boolean_or("add_bos_token", parts.adds_bos);
  if (parts.adds_bos && !parts.bos_id) config.fail("add_bos_token is true, but there is no bos_token");
  parts.chat_template = read_chat_template(config);
}

void read_policy(const fs::path& folder, const JsonNode& file, TokenizerParts& parts) {
  if (const auto piece = read_leading_piece(file)) {
    parts.bos_id = parts.vocabulary->find(*piece);
    if (!parts.bos_id) file.fail(fmt::format("post_processor: '{}' is not in the vocabulary", *piece));
    parts.adds_bos = true;
  }
  const fs::path config_path = folder / "tokenizer_config.json";
  if (fs::exists(config_path)) {
    const nlohmann::json config = read_json_file(config_path.string());
    read_config(JsonNode(config, config_path.string()), parts);
  }
  const fs::path template_path = folder / "chat_template.jinja";
  if (parts.chat_template.empty() && fs::exists(template_path)) {
    parts.chat_template = read_text_file(template_path.string());
  }
  add_named_endings(*parts.vocabulary, parts.eos_ids);
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_folder(const std::string& folder) {
  const fs::path path = fs::path(folder) / "tokenizer.json";
  if (!fs::exists(path)) return nullptr;
  const nlohmann::json json = read_json_file(path.string());
  const JsonNode file(json, path.string());
  TokenizerParts parts;
  parts.where = path.string();
  read_model(file, parts);
  parts.form = read_text_form(file);
  read_policy(folder, file, parts);
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace kvlab
