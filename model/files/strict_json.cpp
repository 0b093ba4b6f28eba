// Puts checks around nlohmann's parser, which lets duplicate keys pass and nests without limit.
#include "model/files/strict_json.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/error.h"
#include "model/files/byte_reader.h"

namespace kvlab {
namespace {

using nlohmann::json;

/// Watches the parser: one set of keys for each object that is open.
class KeyWatch {
 public:
  KeyWatch(const std::string& where, int max_depth) : where_(where), max_depth_(max_depth) {}

  void on_event(int depth, json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= max_depth_) throw InputError(fmt::format("{}: JSON nested more than {} deep", where_, max_depth_));
      if (event == json::parse_event_t::object_start) open_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(key).second)
        throw InputError(fmt::format("{}: duplicate key {}", where_, in_quotes(key)));
    }
  }

 private:
  const std::string& where_;
  int max_depth_;
  std::vector<std::set<std::string>> open_;
};

std::string type_found(const json& value) { return value.is_null() ? "null" : "a " + std::string(value.type_name()); }

}  // namespace

json parse_strict_json(std::string_view text, const std::string& where, int max_depth) {
  KeyWatch watch(where, max_depth);
  const auto on_event = [&watch](int depth, json::parse_event_t event, json& parsed) {
    watch.on_event(depth, event, parsed);
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), on_event);
  } catch (const json::parse_error& error) {
    throw InputError(fmt::format("{}: not well-formed JSON at byte {} of {}", where, error.byte, text.size()));
  } catch (const json::exception&) {
    throw InputError(fmt::format("{}: a number in the JSON does not fit", where));
  }
}

JsonObject::JsonObject(json value, std::string where) : value_(std::move(value)), where_(std::move(where)) {
  if (!value_.is_object()) {
    throw InputError(fmt::format("{}: must be a JSON object, but is {}", where_, type_found(value_)));
  }
}

bool JsonObject::contains(const char* key) const {
  read_.insert(key);
  return value_.contains(key);
}

bool JsonObject::is_null(const char* key) const { return contains(key) && value_.at(key).is_null(); }

const json& JsonObject::at(const char* key) const {
  if (!contains(key)) refuse(key, "is missing");
  return value_.at(key);
}

std::int64_t JsonObject::as_integer(const char* key, const json& value) const {
  // 2^53: up to there a double that is whole is exact; no count in a configuration is larger.
  constexpr double kLargest = 9007199254740992.0;
  if (!value.is_number()) refuse(key, fmt::format("must be a whole number, but is {}", type_found(value)));
  const double number = value.get<double>();
  if (!(std::abs(number) <= kLargest) || number != std::floor(number)) {
    refuse(key, fmt::format("must be a whole number, but is {}", value.dump()));
  }
  return static_cast<std::int64_t>(number);
}

std::int64_t JsonObject::integer(const char* key) const { return as_integer(key, at(key)); }

std::int64_t JsonObject::integer_or(const char* key, std::int64_t absent) const {
  return contains(key) ? integer(key) : absent;
}

std::optional<std::int64_t> JsonObject::nullable_integer(const char* key, std::optional<std::int64_t> absent) const {
  if (!contains(key)) return absent;
  if (is_null(key)) return std::nullopt;
  return integer(key);
}

double JsonObject::number(const char* key) const {
  const json& value = at(key);
  if (!value.is_number()) refuse(key, fmt::format("must be a number, but is {}", type_found(value)));
  return value.get<double>();
}

double JsonObject::number_or(const char* key, double absent) const { return contains(key) ? number(key) : absent; }

bool JsonObject::boolean_or(const char* key, bool absent) const {
  if (!contains(key)) return absent;
  const json& value = at(key);
  if (!value.is_boolean()) refuse(key, fmt::format("must be true or false, but is {}", type_found(value)));
  return value.get<bool>();
}

std::string JsonObject::string(const char* key) const {
  const json& value = at(key);
  if (!value.is_string()) refuse(key, fmt::format("must be a string, but is {}", type_found(value)));
  return value.get<std::string>();
}

std::string JsonObject::string_or(const char* key, const std::string& absent) const {
  return contains(key) ? string(key) : absent;
}

std::vector<std::string> JsonObject::strings(const char* key) const {
  const json& value = at(key);
  if (!value.is_array()) refuse(key, fmt::format("must be a list of strings, but is {}", type_found(value)));
  std::vector<std::string> out;
  for (const json& item : value) {
    if (!item.is_string()) refuse(key, fmt::format("must hold strings only, but holds {}", type_found(item)));
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::int64_t> JsonObject::integers(const char* key) const {
  if (!contains(key) || is_null(key)) return {};
  const json& value = at(key);
  if (!value.is_array()) return {as_integer(key, value)};
  std::vector<std::int64_t> out;
  for (const json& item : value) out.push_back(as_integer(key, item));
  return out;
}

std::optional<JsonObject> JsonObject::object(const char* key) const {
  if (!contains(key) || is_null(key)) return std::nullopt;
  return JsonObject(value_.at(key), fmt::format("{}: {}", where_, key));
}

void JsonObject::refuse(std::string_view key, std::string_view message) const {
  throw InputError(fmt::format("{}: {}: {}", where_, key, message));
}

std::vector<std::string> JsonObject::unread_keys() const {
  std::vector<std::string> keys;
  for (const auto& item : value_.items()) {
    if (!read_.contains(item.key())) keys.push_back(item.key());
  }
  return keys;
}

}  // namespace kvlab
