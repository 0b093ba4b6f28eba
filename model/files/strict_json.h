// JSON of files that we did not write: duplicate keys and deep nesting are refused, and every error names the place.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvlab {

/// Parses `text`. Throws InputError "WHERE: ..." on anything but one well-formed value nested at most `max_depth` deep.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth);

/// An object of which every key is read by name and type, and which knows the keys that nobody asked for.
/// A key that is absent gives the default; null, or a value of another type, is an error naming file and key.
class JsonObject {
 public:
  /// `where` is the file, followed by the path of keys to the object when it is not the whole file.
  JsonObject(nlohmann::json value, std::string where);

  const std::string& where() const { return where_; }
  bool contains(const char* key) const;
  bool is_null(const char* key) const;

  std::int64_t integer(const char* key) const;
  std::int64_t integer_or(const char* key, std::int64_t absent) const;
  /// For keys that may be null: nothing when it is null, `absent` when there is no such key.
  std::optional<std::int64_t> nullable_integer(const char* key, std::optional<std::int64_t> absent) const;
  double number(const char* key) const;
  double number_or(const char* key, double absent) const;
  bool boolean_or(const char* key, bool absent) const;
  std::string string(const char* key) const;
  std::string string_or(const char* key, const std::string& absent) const;
  std::vector<std::string> strings(const char* key) const;
  /// A number, or a list of numbers; absent or null: none.
  std::vector<std::int64_t> integers(const char* key) const;
  /// Nothing when the key is absent or null.
  std::optional<JsonObject> object(const char* key) const;

  /// Throws InputError "WHERE: KEY: MESSAGE".
  [[noreturn]] void refuse(std::string_view key, std::string_view message) const;
  std::vector<std::string> unread_keys() const;

 private:
  const nlohmann::json& at(const char* key) const;
  std::int64_t as_integer(const char* key, const nlohmann::json& value) const;

  nlohmann::json value_;
  std::string where_;
  mutable std::set<std::string> read_;
};

}  // namespace kvlab
