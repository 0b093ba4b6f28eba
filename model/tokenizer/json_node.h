// A value in a JSON file together with where it stands, so that every complaint names file and key.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

class JsonNode {
 public:
  /// `value` outlives the node. `where` is the file.
  JsonNode(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const nlohmann::json& json() const { return *value_; }
  /// Throws InputError with file and path of keys in front of `fault`.
  [[noreturn]] void fail(const std::string& fault) const;

  /// The member of an object; `find` gives nothing when it is absent or null.
  JsonNode at(const std::string& key) const;
  std::optional<JsonNode> find(const std::string& key) const;

  std::string string() const;
  bool boolean() const;
  std::vector<JsonNode> items() const;  // of an array

  bool boolean_or(const std::string& key, bool fallback) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

/// Parses a whole file. Throws InputError naming it.
nlohmann::json read_json_file(const std::string& path);
std::string read_text_file(const std::string& path);

}  // namespace kvlab
