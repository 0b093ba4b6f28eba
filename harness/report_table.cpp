// A report as lines for the terminal. Its columns are fields of the list, scaled for reading.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/noise.h"
#include "harness/report.h"
#include "harness/scaling_fit.h"
#include "harness/text_table.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

struct Column {
  std::string heading;
  std::string field;  // path below results[]
  double scale;       // multiplies the field's unit
  int decimals;
};

const std::vector<Column>& columns() {
  static const std::vector<Column> list = {
      {"batch", "case.workload.batch", 1, 0},
      {"depth", "case.workload.depth", 1, 0},
      {"prompt", "case.workload.prompt_tokens", 1, 0},
      {"gen", "case.workload.gen_tokens", 1, 0},
      {"ttft ms", "metrics.latency.ttft_s.p50", 1e3, 1},
      {"prefill tok/s", "metrics.prefill.tokens_per_s", 1, 1},
      {"mfu %", "metrics.prefill.mfu", 100, 1},
      {"step ms", "metrics.latency.step_s.p50", 1e3, 2},
      {"growth", "metrics.latency.step_growth", 1, 2},
      {"us/token", "metrics.latency.step_slope_s_per_token.value", 1e6, 2},
      {"decode %", "metrics.latency.decode_share", 100, 1},
      {"decode tok/s", "metrics.decode.tokens_per_s", 1, 1},
      {"GB/s", "metrics.decode.bytes_per_s", 1e-9, 2},
      {"mbu %", "metrics.decode.mbu", 100, 1},
      {"KV MB", "metrics.kv.used_bytes", 1e-6, 2},
  };
  return list;
}

ordered_json field_of(const ordered_json& row, std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  const ordered_json::json_pointer pointer("/" + path);
  return row.contains(pointer) ? row[pointer] : ordered_json(nullptr);
}

std::string cell(const ordered_json& row, const Column& column) {
  const ordered_json value = field_of(row, column.field);
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>() * column.scale, column.decimals) : "-";
}

std::string text_of(const ordered_json& row, const std::string& path) {
  const ordered_json value = field_of(row, path);
  return value.is_string() ? value.get<std::string>() : "-";
}

/// The file or folder name, or the name in configs/models.
std::string short_model_name(const std::string& model) {
  const std::string name = std::filesystem::path(model).filename().string();
  return name.ends_with(".gguf") ? name.substr(0, name.size() - 5) : name;
}

/// The row's warnings of noise, without their prefix, in a line; "" for a quiet machine.
std::string noise_of(const ordered_json& row) {
  std::string text;
  for (const ordered_json& warning : row["warnings"]) {
    const std::string words = warning;
    if (!words.starts_with(kNoisePrefix)) continue;
    text += text.empty() ? "" : "; ";
    text += words.substr(kNoisePrefix.size());
  }
  return text;
}

std::vector<std::string> line_of(const ordered_json& row) {
  const Case spec = case_from_json(row["case"]);
  const char* drawn = spec.workload.kv_fill == KvFill::random ? ", random K and V" : "";
  std::vector<std::string> line = {short_model_name(spec.model), variant_label(spec.variant) + drawn};
  for (const Column& column : columns()) line.push_back(cell(row, column));
  line.push_back(text_of(row, "output.tokens_sha256").substr(0, 8));
  line.push_back(text_of(row, "status") + (noise_of(row).empty() ? "" : ", noisy"));
  return line;
}

/// What the numbers need to be read rightly: reasons of rows that did not succeed, and the ceilings.
std::string remarks(const ordered_json& report) {
  std::string text;
  for (const ordered_json& row : report["results"]) {
    const std::string reason = text_of(row, "reason");
    if (reason == "-") continue;
    text +=
        fmt::format("{}: {}: {}\n", variant_label(case_from_json(row["case"]).variant), text_of(row, "status"), reason);
  }
  for (const ordered_json& row : report["results"]) {
    const std::string noise = noise_of(row);
    if (noise.empty()) continue;
    text += fmt::format("{}: noisy: {}\n", variant_label(case_from_json(row["case"]).variant), noise);
  }
  const ordered_json& ceilings = report["ceilings"];
  if (ceilings.is_object()) {
    text +=
        fmt::format("ceilings: read {:.1f} GB/s, copy {:.1f} GB/s, products {:.0f} GFLOP/s f32, {:.0f} bf16\n",
                    ceilings["read_bytes_per_s"].get<double>() / 1e9, ceilings["copy_bytes_per_s"].get<double>() / 1e9,
                    ceilings["gemm_flops_per_s"]["f32"].get<double>() / 1e9,
                    ceilings["gemm_flops_per_s"]["bf16"].get<double>() / 1e9);
  }
  return text;
}

}  // namespace

std::string report_table(const ordered_json& report) {
  std::vector<std::string> headings = {"model", "variant"};
  for (const Column& column : columns()) headings.push_back(column.heading);
  headings.insert(headings.end(), {"tokens", "status"});

  std::vector<std::vector<std::string>> lines = {headings};
  for (const ordered_json& row : report["results"]) lines.push_back(line_of(row));
  std::string text = aligned(lines, 2);
  if (report.contains("fits")) {
    for (const ordered_json& fit : report["fits"]) text += fit_text(fit);
  }
  return text + remarks(report);
}

}  // namespace kvlab
