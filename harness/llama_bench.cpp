// Reads llama-bench's JSON and matches its tests with cases that do the same work.
#include "harness/llama_bench.h"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "harness/text_table.h"
#include "kernels/error.h"

namespace kvlab {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Rounds = std::vector<std::vector<double>>;

constexpr std::uint64_t kBootstrapSeed = 1;

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::int64_t count(const json& row, const char* key, const std::string& where) {
  if (!row.contains(key) || !row[key].is_number_integer() || row[key].get<std::int64_t>() < 0) {
    throw InputError(fmt::format("{}.{} is not a count; is this what `llama-bench -o json` wrote?", where, key));
  }
  return row[key].get<std::int64_t>();
}

std::string text(const json& row, const char* key, const std::string& where) {
  if (!row.contains(key) || !row[key].is_string()) {
    throw InputError(fmt::format("{}.{} is not a string; is this what `llama-bench -o json` wrote?", where, key));
  }
  return row[key].get<std::string>();
}

PeerRow peer_row(const json& object, const std::string& where) {
  if (!object.is_object()) throw InputError(where + " is not an object");
  PeerRow row;
  row.build = text(object, "build_commit", where);
  row.model_file = file_name(text(object, "model_filename", where));
  row.n_prompt = count(object, "n_prompt", where);
  row.n_gen = count(object, "n_gen", where);
  row.n_depth = object.contains("n_depth") ? count(object, "n_depth", where) : 0;  // early versions know no depth
  row.n_threads = count(object, "n_threads", where);
  row.test = row.n_gen == 0 ? fmt::format("pp{}", row.n_prompt) : fmt::format("tg{}", row.n_gen);
  if (row.n_depth > 0) row.test += fmt::format(" @ d{}", row.n_depth);
  if (!object.contains("samples_ns") || !object["samples_ns"].is_array()) {
    throw InputError(fmt::format("{}.samples_ns is not an array", where));
  }
  for (const json& sample : object["samples_ns"]) {
    if (!sample.is_number() || !(sample.get<double>() > 0)) {
      throw InputError(fmt::format("{}.samples_ns is not made of positive numbers", where));
    }
    row.round_s.push_back({sample.get<double>() * 1e-9});
  }
  if (row.round_s.empty()) throw InputError(fmt::format("{}.samples_ns is empty", where));
  return row;
}

/// Times per token of our rounds, where this case does the peer's work; empty otherwise.
Rounds our_rounds(const ReportRow& ours, const PeerRow& peer) {
  const ordered_json& workload = ours.spec.at("workload");
  const bool same_setting = ours.status == "ok" && workload.at("batch") == 1 &&
                            ours.spec.at("threads") == peer.n_threads &&
                            file_name(ours.spec.at("model")) == peer.model_file;
  if (!same_setting) return {};
  const auto depth = workload.at("depth").get<std::int64_t>();
  const auto prompt = workload.at("prompt_tokens").get<std::int64_t>();
  Rounds rounds;
  if (peer.n_gen == 0) {
    if (prompt != peer.n_prompt || depth != peer.n_depth) return {};
    for (const double seconds : ours.prefill_s) rounds.push_back({seconds / static_cast<double>(prompt)});
    return rounds;
  }
  const std::int64_t extra = peer.n_gen - ours.decode_tokens;
  if (depth + prompt != peer.n_depth || extra < 0 || extra > 1) return {};
  for (const auto& steps : ours.step_s) {
    rounds.push_back({std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size())});
  }
  return rounds;
}

Rounds peer_rounds(const PeerRow& peer) {
  const std::int64_t tokens = peer.n_gen == 0 ? peer.n_prompt : peer.n_gen;
  Rounds rounds;
  for (const auto& round : peer.round_s) rounds.push_back({round[0] / static_cast<double>(tokens)});
  return rounds;
}

double rate(const Rounds& rounds) {
  std::vector<double> seconds_a_token;
  for (const auto& round : rounds) seconds_a_token.push_back(round[0]);
  return 1 / median(seconds_a_token);
}

void judge_all(std::vector<PeerCell>& cells, const std::vector<TimeRatio>& times) {
  std::vector<double> chances;
  for (const TimeRatio& time : times) {
    if (time.chance_if_same) chances.push_back(*time.chance_if_same);
  }
  const std::vector<double> adjusted = control_false_discoveries(chances);
  std::size_t next = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (times[i].chance_if_same) cells[i].verdict = judge_ratio(times[i], adjusted[next++]);
  }
}

}  // namespace

std::vector<PeerRow> read_llama_bench(const std::string& path, const json& list) {
  if (!list.is_array()) throw InputError(fmt::format("{} is not what `llama-bench -o json` writes: no array", path));
  std::vector<PeerRow> rows;
  for (std::size_t i = 0; i < list.size(); ++i) {
    PeerRow row = peer_row(list[i], fmt::format("{}: [{}]", path, i));
    if ((row.n_prompt == 0) != (row.n_gen == 0)) rows.push_back(std::move(row));
  }
  return rows;
}

PeerComparison compare_with_peer(const ReportRows& ours, const std::vector<PeerRow>& peer) {
  PeerComparison comparison;
  std::vector<TimeRatio> times;
  for (const PeerRow& theirs : peer) {
    const Rounds their_rounds = peer_rounds(theirs);
    bool matched = false;
    for (const ReportRow& row : ours.rows) {
      const Rounds rounds = our_rounds(row, theirs);
      if (rounds.empty()) continue;
      matched = true;
      times.push_back(compare_times(their_rounds, rounds, kBootstrapSeed));
      PeerCell cell;
      cell.peer = theirs;
      cell.spec = row.spec;
      cell.label = row.label;
      cell.metric = theirs.n_gen == 0 ? "prefill.tokens_per_s" : "decode.tokens_per_s";
      cell.ours = rate(rounds);
      cell.theirs = rate(their_rounds);
      cell.ratio = 1 / times.back().ratio;
      if (times.back().ci95) {
        cell.low = 1 / times.back().ci95->high;
        cell.high = 1 / times.back().ci95->low;
      }
      comparison.cells.push_back(std::move(cell));
    }
    if (!matched) comparison.alone.push_back(theirs);
  }
  judge_all(comparison.cells, times);
  return comparison;
}

ordered_json peer_json(const PeerComparison& comparison) {
  const auto or_null = [](const std::optional<double>& value) { return value ? ordered_json(*value) : ordered_json(); };
  ordered_json list = ordered_json::array();
  for (const PeerCell& cell : comparison.cells) {
    ordered_json json;
    json["case"] = cell.spec;
    json["metric"] = cell.metric;
    json["peer"] = {{"program", "llama-bench"}, {"build", cell.peer.build}, {"test", cell.peer.test}};
    json["ours"] = cell.ours;
    json["theirs"] = cell.theirs;
    json["ratio"] = cell.ratio;
    json["low"] = or_null(cell.low);
    json["high"] = or_null(cell.high);
    json["verdict"] = verdict_name(cell.verdict);
    list.push_back(json);
  }
  return list;
}

std::string peer_table(const PeerComparison& comparison) {
  std::vector<std::vector<std::string>> lines = {
      {"case", "llama-bench", "ours tok/s", "theirs tok/s", "ours / theirs", "95 % interval", "ours is"}};
  for (const PeerCell& cell : comparison.cells) {
    lines.push_back({cell.label, cell.peer.test, fmt::format("{:.1f}", cell.ours), fmt::format("{:.1f}", cell.theirs),
                     fmt::format("{:.3f}", cell.ratio),
                     cell.low ? fmt::format("{:.3f} ... {:.3f}", *cell.low, *cell.high) : "too few rounds",
                     std::string(verdict_name(cell.verdict))});
  }
  std::string text = "\n" + aligned(lines, 2);
  for (const PeerRow& row : comparison.alone) {
    text += fmt::format("llama-bench {} of {}, {} threads: no case does the same work; it gives {:.1f} tokens/s\n",
                        row.test, row.model_file, row.n_threads, rate(peer_rounds(row)));
  }
  return text;
}

}  // namespace kvlab
