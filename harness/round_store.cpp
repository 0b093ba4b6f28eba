// Reads and appends the lines; what a line says: harness/outcome_json.h.
#include "harness/round_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "harness/outcome_json.h"
#include "harness/output_file.h"
#include "harness/report.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

using Json = nlohmann::ordered_json;

void fold_line(const Json& line, MeasuredCase& measured) {
  const Json& number = line.at("round");
  CaseOutcome outcome = outcome_from_json(line);
  const bool round = outcome.round.has_value();
  if (round) measured.rounds[number.get<std::int64_t>()] = std::move(*outcome.round);
  CaseResult& result = measured.result;
  result.status = outcome.status;
  result.reason = outcome.reason;
  if (!round) return;
  result.warnings = outcome.warnings;
  result.output = outcome.output;
}

}  // namespace

RoundStore::RoundStore(const std::string& folder) : path_((std::filesystem::path(folder) / "results.jsonl").string()) {
  if (!std::filesystem::exists(path_)) return;
  const std::string text = read_text_file("--out", path_);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    if (line.is_discarded() || !line.is_object()) {
      throw InputError(
          fmt::format("{} line {} is not JSON; delete the line to measure that round again", path_, lines_.size() + 1));
    }
    lines_.push_back(std::move(line));
    begin = end + 1;
  }
  if (begin < text.size()) std::filesystem::resize_file(path_, begin);
}

std::int64_t RoundStore::fold_into(std::vector<MeasuredCase>& cases) const {
  std::int64_t strangers = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    try {
      const Case spec = case_from_json(lines_[i].at("case"));
      const auto owner = std::find_if(cases.begin(), cases.end(),
                                      [&](const MeasuredCase& measured) { return measured.result.spec == spec; });
      if (owner == cases.end()) {
        ++strangers;
      } else {
        fold_line(lines_[i], *owner);
      }
    } catch (const std::exception& error) {
      throw InputError(fmt::format("{} line {} is not a round: {}; delete the line to measure that round again", path_,
                                   i + 1, error.what()));
    }
  }
  for (MeasuredCase& measured : cases) fold_rounds(measured);
  return strangers;
}

void RoundStore::append(const Case& spec, std::optional<std::int64_t> number, const CaseOutcome& outcome) {
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << outcome_json(spec, number, outcome).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.flush();
  if (!file) throw std::runtime_error(fmt::format("writing {} failed", path_));
}

}  // namespace kvlab
