// What llama.cpp's llama-bench measured (`llama-bench -o json`), beside rows of a report.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report_comparison.h"

namespace kvlab {

/// One test of llama-bench: a prompt without generation ("pp512"), or a generation without prompt ("tg128").
struct PeerRow {
  std::string build;       // commit of llama.cpp
  std::string model_file;  // file name without folders
  std::string test;        // as llama-bench's own table names it: "tg128 @ d512"
  std::int64_t n_prompt = 0, n_gen = 0, n_depth = 0, n_threads = 0;
  std::vector<std::vector<double>> round_s;  // [repetitions][1]
};

/// Tests of both phases at once ("pp512+tg128") are left out: they tell nothing about either. Throws InputError naming
/// path and key for what llama-bench does not write.
std::vector<PeerRow> read_llama_bench(const std::string& path, const nlohmann::json& json);

struct PeerCell {
  PeerRow peer;
  nlohmann::ordered_json spec;  // of our case
  std::string label;
  std::string metric;                  // prefill.tokens_per_s or decode.tokens_per_s
  double ours = 0, theirs = 0;         // tokens/s
  double ratio = 1;                    // ours / theirs
  std::optional<double> low, high;     // 95 % interval
  Verdict verdict = Verdict::unclear;  // of ours
};

struct PeerComparison {
  std::vector<PeerCell> cells;
  std::vector<PeerRow> alone;  // no case of ours does the same work
};

/// A prompt stands beside cases of the same model file, threads, prompt and depth with a batch of 1; a generation
/// beside those whose decode steps begin at its depth (our depth + prompt) and are as many (gen_tokens - 1), or one
/// more.
PeerComparison compare_with_peer(const ReportRows& ours, const std::vector<PeerRow>& peer);

nlohmann::ordered_json peer_json(const PeerComparison& comparison);
std::string peer_table(const PeerComparison& comparison);

}  // namespace kvlab
