// Golden ids: strings with the ids that an independent tokenizer gave for them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace kvlab {

inline std::string golden_path(const std::string& name) {
  return std::string(KVLAB_SOURCE_DIR) + "/tests/golden/" + name;
}

inline nlohmann::json read_golden(const std::string& name) {
  std::ifstream stream(golden_path(name));
  return nlohmann::json::parse(stream);
}

/// Ids equal and the text comes back, for each {"text", "ids"} of `strings`.
inline void expect_golden_strings(const Tokenizer& tokenizer, const nlohmann::json& strings) {
  ASSERT_FALSE(strings.empty());
  for (const nlohmann::json& entry : strings) {
    const auto text = entry.at("text").get<std::string>();
    const auto expected = entry.at("ids").get<std::vector<std::int32_t>>();
    const std::vector<std::int32_t> ids = tokenizer.encode(text, true);
    EXPECT_EQ(ids, expected) << "text: " << entry.at("text");
    EXPECT_EQ(tokenizer.decode(ids), entry.value("decoded", text)) << "text: " << entry.at("text");
  }
}

}  // namespace kvlab
