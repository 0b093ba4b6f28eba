// Text to ids and back. Two kinds behind one interface: byte-level BPE and SentencePiece-style BPE with byte fallback.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of UTF-8 text, no BOS. With `parse_special`, spelled-out special tokens become their ids; otherwise they are
  /// plain text. Throws InputError with the byte offset when the text is not UTF-8.
  virtual std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const = 0;
  /// The bytes that one id stands for in running text ("" for an id outside the vocabulary). Joining them and
  /// dropping the leading dummy space, where the model has one, is the exact inverse of `encode`.
  virtual std::string token_bytes(std::int32_t id) const = 0;
  /// The exact inverse of `encode`: bytes, not necessarily whole UTF-8 characters.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// The vocabulary's own spelling of an id ("Ġworld", "▁is", "<0x0A>").
  virtual std::string piece(std::int32_t id) const = 0;
  /// Successive states of the merging (SPEC S1), pieces parted by '|': the first line is single characters.
  virtual std::vector<std::string> explain(std::string_view text) const = 0;

  virtual std::int64_t vocab_size() const = 0;
  virtual std::optional<std::int32_t> bos_id() const = 0;
  /// Whether `generate --prompt` puts the BOS in front.
  virtual bool adds_bos() const = 0;
  /// Ids that end a generation (EOS, end of turn).
  virtual std::vector<std::int32_t> eos_ids() const = 0;
  virtual std::optional<std::int32_t> find_piece(std::string_view piece) const = 0;
  /// The id is a control or special token: never shown in generated text.
  virtual bool is_special(std::int32_t id) const = 0;
  /// The model's chat template as the file gives it ("" if none).
  virtual std::string chat_template() const = 0;
};

class GgufFile;

/// From `tokenizer.ggml.*` metadata. Null when the file has no vocabulary. Throws InputError naming the key when the
/// vocabulary is malformed or of an unknown kind.
std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufFile& file);
/// From a Hugging Face folder's tokenizer.json (with tokenizer_config.json beside it for BOS/EOS policy when there).
/// Null when the folder has no tokenizer.json.
std::unique_ptr<Tokenizer> tokenizer_from_folder(const std::string& folder);

}  // namespace kvlab
