// Outcomes to JSON and back.
#include "harness/outcome_json.h"

#include <array>
#include <stdexcept>
#include <string>

#include "harness/report.h"

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
constexpr std::array<KvField, 5> kKvFields = {{{"bytes_per_token", &KvFootprint::bytes_per_token},
                                               {"used_bytes", &KvFootprint::used_bytes},
                                               {"reserved_bytes", &KvFootprint::reserved_bytes},
                                               {"table_bytes", &KvFootprint::table_bytes},
                                               {"peak_bytes", &KvFootprint::peak_bytes}}};

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

struct TransferField {
  const char* name;
  std::int64_t Transfers::*member;
};
constexpr std::array<TransferField, 2> kTransferFields = {
    {{"h2d_bytes", &Transfers::to_device_bytes}, {"d2h_bytes", &Transfers::to_host_bytes}}};

struct PhaseField {
  const char* name;
  Transfers CaseTransfers::*member;
};
constexpr std::array<PhaseField, 3> kTransferPhases = {
    {{"load", &CaseTransfers::load}, {"prefill", &CaseTransfers::prefill}, {"decode", &CaseTransfers::decode}}};

Json transfers_json(const CaseTransfers& transfers) {
  Json json;
  for (const PhaseField& phase : kTransferPhases) {
    for (const TransferField& field : kTransferFields) {
      json[phase.name][field.name] = (transfers.*phase.member).*field.member;
    }
  }
  return json;
}

CaseTransfers transfers_from_json(const nlohmann::json& json) {
  CaseTransfers transfers;
  for (const PhaseField& phase : kTransferPhases) {
    for (const TransferField& field : kTransferFields) {
      json.at(phase.name).at(field.name).get_to((transfers.*phase.member).*field.member);
    }
  }
  return transfers;
}

Json samples_json(const Round& round) {
  Json json;
  json["ttft_s"] = {round.ttft_s};
  json["prefill_s"] = {round.prefill_s};
  json["step_s"] = Json::array({Json(round.step_s)});
  json["device_prefill_s"] = round.device_prefill_s;
  json["device_step_s"] = round.device_step_s;
  json["step_rows"] = round.step_rows;
  json["step_dots"] = round.step_dots;
  return json;
}

Round round_from_json(const nlohmann::json& line) {
  Round round;
  const nlohmann::json& samples = line.at("samples");
  samples.at("ttft_s").at(0).get_to(round.ttft_s);
  samples.at("prefill_s").at(0).get_to(round.prefill_s);
  samples.at("step_s").at(0).get_to(round.step_s);
  if (samples.contains("device_step_s")) {
    samples.at("device_prefill_s").get_to(round.device_prefill_s);
    samples.at("device_step_s").get_to(round.device_step_s);
  }
  samples.at("step_rows").get_to(round.step_rows);
  samples.at("step_dots").get_to(round.step_dots);
  if (line.contains("disturbance")) round.disturbance = disturbance_from_json(line.at("disturbance"));
  round.prefill_work = work_from_json(line.at("counted").at("prefill"));
  round.decode_work = work_from_json(line.at("counted").at("decode"));
  if (line.contains("transfers")) round.transfers = transfers_from_json(line.at("transfers"));
  if (line.contains("gemv")) line.at("gemv").get_to(round.gemv);
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

Json output_json(const Output& output) {
  return {{"prompt_ids_sha256", output.prompt_ids_sha256},
          {"tokens_sha256", output.tokens_sha256},
          {"first_tokens", output.first_tokens}};
}

}  // namespace

Json outcome_json(const Case& spec, std::optional<std::int64_t> number, const CaseOutcome& outcome) {
  Json line;
  line["case"] = case_json(spec);
  line["round"] = number ? Json(*number) : Json();
  line["status"] = status_name(outcome.status);
  if (!outcome.round) {
    line["reason"] = outcome.reason;
    line["samples"] = nullptr;
    return line;
  }
  const Round& round = *outcome.round;
  line["samples"] = samples_json(round);
  line["warnings"] = outcome.warnings;
  line["disturbance"] = disturbance_json(round.disturbance);
  line["counted"] = {{"prefill", work_json(round.prefill_work)}, {"decode", work_json(round.decode_work)}};
  for (const KvField& field : kKvFields) line["kv"][field.name] = round.kv.*field.member;
  line["kv"]["workspace_bytes"] = round.workspace_bytes;
  line["transfers"] = transfers_json(round.transfers);
  line["gemv"] = round.gemv;
  line["output"] = output_json(outcome.output);
  return line;
}

CaseOutcome outcome_from_json(const nlohmann::json& line) {
  CaseOutcome outcome;
  outcome.status = status_from_name(line.at("status").get<std::string>());
  if (outcome.status != Status::ok) {
    line.at("reason").get_to(outcome.reason);
    return outcome;
  }
  outcome.round = round_from_json(line);
  line.at("warnings").get_to(outcome.warnings);
  const nlohmann::json& output = line.at("output");
  output.at("prompt_ids_sha256").get_to(outcome.output.prompt_ids_sha256);
  output.at("tokens_sha256").get_to(outcome.output.tokens_sha256);
  output.at("first_tokens").get_to(outcome.output.first_tokens);
  return outcome;
}

}  // namespace kvlab
