// One function per subcommand, free of flag parsing: a request in, an exit code out. command_line.cpp fills the
// requests. Each throws InputError for a wrong request (exit 2); 0: done; 1: a check or a case failed; 130:
// interrupted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/profile_window.h"
#include "kernels/gemv_setting.h"
#include "model/generation.h"
#include "variants/variant.h"

namespace kvlab {

/// What every command that runs a model shares.
struct ModelRequest {
  std::string model;
  Variant variant;
  std::string device = "cpu";
  GemvSetting gemv = GemvSetting::measured;  // for devices that have the choice
  int threads = 0;                           // 0: all cores
  std::uint64_t seed = 1;
};

struct SettingChange {  // --at STEP:key=value
  std::int64_t step;
  std::string key;  // temperature | top-k | top-p | max-new-tokens | stop | add-stop
  std::string value;
};

struct GenerateRequest {
  ModelRequest model;
  std::optional<std::string> prompt;
  std::optional<std::vector<std::int32_t>> prompt_ids;
  GenerationSettings settings;
  std::vector<SettingChange> changes;
  bool chat = false;
  bool parse_special = false;
  std::string logits_out;  // "" : none
  std::string json;        // "" : none, "-": standard output
};
int run_generate(const GenerateRequest& request);

struct ScoreRequest {
  ModelRequest model;
  std::string text_file;
  std::optional<std::vector<std::int32_t>> prompt_ids;
  std::string json;
};
int run_score(const ScoreRequest& request);

struct RunRequest {
  ModelRequest model;
  std::int64_t batch = 1;
  std::int64_t depth = 0;
  std::string kv_fill = "prefill";
  std::int64_t prompt_tokens = 0;
  std::int64_t gen_tokens = 0;
  std::int64_t rounds = 3;
  std::string prompt_file;  // "": seeded ids
  std::string json;
  bool quiet = false;
  std::optional<ProfileWindow> profile;  // nothing: a measured run
  bool kernel_times = false;             // instead of a measured run
  std::vector<std::string> argv;
};
int run_run(const RunRequest& request);

struct SweepRequest {
  std::string config_file;
  std::string out;
  bool resume = false;
  std::vector<std::string> filters;  // axis=value
  std::string shard;                 // "I/N"; "": all
  std::vector<std::string> faults;   // harness/isolation/fault.h
  bool dry_run = false;
  bool quiet = false;
  std::string device = "cpu";
  GemvSetting gemv = GemvSetting::measured;
  int threads = 0;  // 0: all cores
  std::vector<std::string> argv;
};
int run_sweep(const SweepRequest& request);

struct MergeRequest {
  std::vector<std::string> folders;
  std::string out;
};
int run_merge(const MergeRequest& request);

struct VerifyRequest {
  ModelRequest model;
  std::int64_t prompt_tokens = 24;
  std::int64_t gen_tokens = 8;
  std::int64_t layer = -1;  // -1: the whole model
};
int run_verify(const VerifyRequest& request);

struct TokenizeRequest {
  std::string model;
  std::string text;  // "-": standard input, byte for byte
  bool explain = false;
  bool json = false;
  bool parse_special = false;
  bool bos = false;
};
int run_tokenize(const TokenizeRequest& request);

constexpr const char* kThisMachine = "this";  // of --hardware

struct PlanRequest {
  ModelRequest model;
  std::int64_t context = 0;
  std::int64_t batch = 1;
  std::string hardware;   // a name in configs/hardware, or kThisMachine; "": none
  std::int64_t gpus = 1;  // devices that share the model
  std::string json;
};
int run_plan(const PlanRequest& request);

struct TraceRequest {
  ModelRequest model;
  std::vector<std::int32_t> prompt_ids;
  std::string format = "table";  // table | json | dot
};
int run_trace(const TraceRequest& request);

struct CeilingsRequest {
  std::string device = "cpu";
  int threads = 0;
  std::string json;
  std::vector<std::string> argv;
};
int run_ceilings(const CeilingsRequest& request);

struct CompareRequest {
  std::string base;
  std::string other;
  double fail_above_percent = 0;  // how much slower, or larger, a cell may be
  std::string llama_bench;        // JSON of llama-bench to stand beside `other`; "": none
  std::int64_t percentile = 50;   // at which times are compared
  std::string json;
};
int run_compare(const CompareRequest& request);

int run_list(const std::string& what);  // models | variants | devices

}  // namespace kvlab
