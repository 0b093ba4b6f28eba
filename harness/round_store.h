// DIR/results.jsonl: a line per finished round of a case, flushed, so that a killed sweep loses one round at most.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/measurement.h"

namespace kvlab {

class RoundStore {
 public:
  /// `folder` exists. A last line that was cut off is dropped; a broken line elsewhere is an InputError with its
  /// number.
  explicit RoundStore(const std::string& folder);

  /// Puts stored rounds and failures into the cases they belong to. Returns how many lines belong to none of them.
  std::int64_t fold_into(std::vector<MeasuredCase>& cases) const;
  /// Appends a line and flushes it. No number: what ended the case. Throws std::runtime_error when the disk is full.
  void append(const Case& spec, std::optional<std::int64_t> number, const CaseOutcome& outcome);

  const std::vector<nlohmann::ordered_json>& lines() const { return lines_; }  // as read when the store was opened

 private:
  std::string path_;
  std::vector<nlohmann::ordered_json> lines_;
};

}  // namespace kvlab
