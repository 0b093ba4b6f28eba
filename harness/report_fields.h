// The one list of report fields, each with the way to its value. The writer walks it; docs/report.md is printed from
// it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/environment.h"
#include "harness/metrics.h"
#include "harness/report.h"

namespace kvlab {

/// A field and how its value comes out of a T.
template <typename T>
struct FieldOf {
  Field field;
  std::function<nlohmann::ordered_json(const T&)> value;
};

const std::vector<FieldOf<Case>>& case_fields();            // results[].case. ...
const std::vector<FieldOf<JudgedResult>>& result_fields();  // results[]. ..., `case` apart
const std::vector<FieldOf<Ceilings>>& ceiling_fields();     // ceilings. ...
const std::vector<FieldOf<Environment>>& environment_fields();

/// The object below `prefix` ("results[].case.", with its dot) that the fields describe.
template <typename T>
nlohmann::ordered_json object_of_fields(const std::vector<FieldOf<T>>& fields, std::string_view prefix,
                                        const T& source) {
  nlohmann::ordered_json object;
  for (const FieldOf<T>& entry : fields) {
    std::string pointer = entry.field.path.substr(prefix.size() - 1);  // from the prefix's last dot on
    for (char& c : pointer) c = c == '.' ? '/' : c;
    object[nlohmann::ordered_json::json_pointer(pointer)] = entry.value(source);
  }
  return object;
}

/// 0 stands for what was not measured.
inline nlohmann::ordered_json measured_or_null(double value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

template <typename T>
nlohmann::ordered_json json_value(const T& value) {
  return value;
}
/// Null where there is no value.
template <typename T>
nlohmann::ordered_json json_value(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace kvlab
