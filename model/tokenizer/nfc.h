// Unicode composition (NFC), for tokenizers that ask for it.
#pragma once

#include <string>
#include <string_view>

namespace kvlab {

/// `text` (valid UTF-8) in Normalization Form C.
std::string compose_nfc(std::string_view text);

}  // namespace kvlab
