// The two forms: the byte alphabet, and the space mark of SentencePiece.
#include "model/tokenizer/text_form.h"

#include <algorithm>

#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/nfc.h"

namespace kvlab {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

class ByteLevelForm final : public TextForm {
 public:
  ByteLevelForm(Pretokenizer pretokenizer, bool to_nfc) : pretokenizer_(std::move(pretokenizer)), to_nfc_(to_nfc) {}

  void words(std::string_view segment, const std::function<void(std::string_view)>& word) const override {
    std::string spelled;
    const auto spell = [&](std::string_view part) {
      spelled.clear();
      for (const char byte : part) spelled += byte_character(static_cast<unsigned char>(byte));
      word(spelled);
    };
    if (to_nfc_) {
      pretokenizer_.split(compose_nfc(segment), spell);
    } else {
      pretokenizer_.split(segment, spell);
    }
  }

  std::string bytes(std::string_view piece) const override { return bytes_of_piece(piece); }
  std::string user_defined_bytes(std::string_view piece) const override { return std::string(piece); }
  bool dummy_space() const override { return false; }

 private:
  Pretokenizer pretokenizer_;
  bool to_nfc_;
};

class SpaceMarkForm final : public TextForm {
 public:
  explicit SpaceMarkForm(bool dummy_space) : dummy_space_(dummy_space) {}

  void words(std::string_view segment, const std::function<void(std::string_view)>& word) const override {
    std::string spelled;
    spelled.reserve(segment.size() + segment.size() / 2);
    if (dummy_space_) spelled += kSpaceMark;
    for (const char byte : segment) {
      if (byte == ' ') {
        spelled += kSpaceMark;
      } else {
        spelled += byte;
      }
    }
    word(spelled);
  }

  std::string bytes(std::string_view piece) const override {
    std::string text;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t mark = std::min(piece.find(kSpaceMark, at), piece.size());
      text += piece.substr(at, mark - at);
      if (mark < piece.size()) text += ' ';
      at = mark + kSpaceMark.size();
    }
    return text;
  }

  std::string user_defined_bytes(std::string_view piece) const override { return bytes(piece); }
  bool dummy_space() const override { return dummy_space_; }

 private:
  bool dummy_space_;
};

}  // namespace

std::unique_ptr<TextForm> byte_level_form(Pretokenizer pretokenizer, bool to_nfc) {
  return std::make_unique<ByteLevelForm>(std::move(pretokenizer), to_nfc);
}

std::unique_ptr<TextForm> space_mark_form(bool dummy_space) { return std::make_unique<SpaceMarkForm>(dummy_space); }

}  // namespace kvlab
