// Rounds to JSON lines and back.
#include "harness/round_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "harness/output_file.h"
#include "harness/report.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

using Json = nlohmann::ordered_json;

struct WorkField {
  const char* name;
  std::int64_t WorkCounters::*member;
};
constexpr std::array<WorkField, 7> kWorkFields = {{{"rows", &WorkCounters::rows},
                                                   {"kv_projection_rows", &WorkCounters::kv_projection_rows},
                                                   {"gemm_flops", &WorkCounters::gemm_flops},
                                                   {"attention_flops", &WorkCounters::attention_flops},
                                                   {"weight_bytes", &WorkCounters::weight_bytes},
                                                   {"kv_read_bytes", &WorkCounters::kv_read_bytes},
                                                   {"kv_write_bytes", &WorkCounters::kv_write_bytes}}};

struct KvField {
  const char* name;
  std::int64_t KvFootprint::*member;
};
constexpr std::array<KvField, 4> kKvFields = {{{"bytes_per_token", &KvFootprint::bytes_per_token},
                                               {"used_bytes", &KvFootprint::used_bytes},
                                               {"reserved_bytes", &KvFootprint::reserved_bytes},
                                               {"table_bytes", &KvFootprint::table_bytes}}};

Json work_json(const WorkCounters& work) {
  Json json;
  for (const WorkField& field : kWorkFields) json[field.name] = work.*field.member;
  json["attention_dots"] = work.attention_dots;
  json["attention_dots_newest_row"] = work.attention_dots_newest_row;
  return json;
}

WorkCounters work_from_json(const nlohmann::json& json) {
  WorkCounters work;
  for (const WorkField& field : kWorkFields) json.at(field.name).get_to(work.*field.member);
  json.at("attention_dots").get_to(work.attention_dots);
  json.at("attention_dots_newest_row").get_to(work.attention_dots_newest_row);
  return work;
}

Json samples_json(const Round& round) {
  Json json;
  json["ttft_s"] = {round.ttft_s};
  json["prefill_s"] = {round.prefill_s};
  json["step_s"] = Json::array({Json(round.step_s)});
  json["step_rows"] = round.step_rows;
  json["step_dots"] = round.step_dots;
  return json;
}

Json line_json(const MeasuredCase& measured, std::int64_t number) {
  const CaseResult& result = measured.result;
  Json line;
  line["case"] = case_json(result.spec);
  line["round"] = number < 0 ? Json() : Json(number);
  line["status"] = status_name(result.status);
  if (!measured.open()) {
    line["reason"] = result.reason;
    line["samples"] = nullptr;
    return line;
  }
  const Round& round = measured.rounds.at(number);
  line["samples"] = samples_json(round);
  line["warnings"] = result.warnings;
  line["disturbance"] = disturbance_json(round.disturbance);
  line["counted"] = {{"prefill", work_json(round.prefill_work)}, {"decode", work_json(round.decode_work)}};
  for (const KvField& field : kKvFields) line["kv"][field.name] = round.kv.*field.member;
  line["kv"]["workspace_bytes"] = round.workspace_bytes;
  line["output"] = {{"prompt_ids_sha256", result.output.prompt_ids_sha256},
                    {"tokens_sha256", result.output.tokens_sha256},
                    {"first_tokens", result.output.first_tokens}};
  return line;
}

Round round_from_json(const nlohmann::json& line) {
  Round round;
  const nlohmann::json& samples = line.at("samples");
  samples.at("ttft_s").at(0).get_to(round.ttft_s);
  samples.at("prefill_s").at(0).get_to(round.prefill_s);
  samples.at("step_s").at(0).get_to(round.step_s);
  samples.at("step_rows").get_to(round.step_rows);
  samples.at("step_dots").get_to(round.step_dots);
  if (line.contains("disturbance")) round.disturbance = disturbance_from_json(line.at("disturbance"));
  round.prefill_work = work_from_json(line.at("counted").at("prefill"));
  round.decode_work = work_from_json(line.at("counted").at("decode"));
  for (const KvField& field : kKvFields) line.at("kv").at(field.name).get_to(round.kv.*field.member);
  line.at("kv").at("workspace_bytes").get_to(round.workspace_bytes);
  return round;
}

Status status_from_name(const std::string& name) {
  for (const Status status :
       {Status::ok, Status::skipped, Status::oom, Status::timeout, Status::crash, Status::failed, Status::invalid}) {
    if (status_name(status) == name) return status;
  }
  throw std::runtime_error("there is no status " + name);
}

void fold_line(const nlohmann::json& line, MeasuredCase& measured) {
  CaseResult& result = measured.result;
  result.status = status_from_name(line.at("status").get<std::string>());
  if (!measured.open()) {
    line.at("reason").get_to(result.reason);
    return;
  }
  measured.rounds[line.at("round").get<std::int64_t>()] = round_from_json(line);
  line.at("warnings").get_to(result.warnings);
  const nlohmann::json& output = line.at("output");
  output.at("prompt_ids_sha256").get_to(result.output.prompt_ids_sha256);
  output.at("tokens_sha256").get_to(result.output.tokens_sha256);
  output.at("first_tokens").get_to(result.output.first_tokens);
}

}  // namespace

RoundStore::RoundStore(const std::string& folder) : path_((std::filesystem::path(folder) / "results.jsonl").string()) {
  if (!std::filesystem::exists(path_)) return;
  const std::string text = read_text_file("--out", path_);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const auto line = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    if (line.is_discarded() || !line.is_object()) {
      throw InputError(
          fmt::format("{} line {} is not JSON; delete the line to measure that round again", path_, lines_.size() + 1));
    }
    lines_.push_back(line);
    begin = end + 1;
  }
  if (begin < text.size()) std::filesystem::resize_file(path_, begin);
}

std::int64_t RoundStore::fold_into(std::vector<MeasuredCase>& cases) const {
  std::int64_t strangers = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    try {
      const nlohmann::json spec = lines_[i].at("case");
      const auto owner = std::find_if(cases.begin(), cases.end(), [&](const MeasuredCase& measured) {
        return nlohmann::json(case_json(measured.result.spec)) == spec;
      });
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

void RoundStore::append(const MeasuredCase& measured, std::int64_t round) {
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << line_json(measured, round).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.flush();
  if (!file) throw std::runtime_error(fmt::format("writing {} failed", path_));
}

}  // namespace kvlab
