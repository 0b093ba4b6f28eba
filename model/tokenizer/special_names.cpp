// Only control pieces count: the same spelling as ordinary text ends nothing.
#include "model/tokenizer/special_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace kvlab {
namespace {

constexpr std::array<std::string_view, 10> kEndings = {
    "</s>",       "<eos>",           "<|endoftext|>", "<|im_end|>", "<|eot_id|>",
    "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<|end|>",    "<|eot|>",
};

}  // namespace

void add_ending(std::int32_t id, std::vector<std::int32_t>& eos_ids) {
  if (std::find(eos_ids.begin(), eos_ids.end(), id) == eos_ids.end()) eos_ids.push_back(id);
}

void add_named_endings(const Vocabulary& vocabulary, std::vector<std::int32_t>& eos_ids) {
  for (const std::string_view name : kEndings) {
    const auto id = vocabulary.find(name);
    if (!id || vocabulary.type(*id) != PieceType::control) continue;
    add_ending(*id, eos_ids);
  }
}

}  // namespace kvlab
