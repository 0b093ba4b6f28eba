// What is measured and what came of it: plain data, passed between the runner, the accounting and the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/disturbance.h"
#include "kernels/transfers.h"
#include "model/work_counters.h"
#include "variants/cache/kv_cache.h"
#include "variants/variant.h"

namespace kvlab {

/// Where the K and V of `depth` tokens come from.
enum class KvFill {
  prefill,  // passes over real tokens, untimed
  random    // drawn at activation scale (kernels/random_kv.h): no pass at all
};

struct Workload {
  std::int64_t batch = 1;
  std::int64_t depth = 0;  // tokens in the cache before the measured prompt begins
  std::int64_t prompt_tokens = 0;
  std::int64_t gen_tokens = 0;  // one prefill gives the first; gen_tokens - 1 decode steps give the others
  KvFill kv_fill = KvFill::prefill;

  bool operator==(const Workload&) const = default;
};

std::string_view kv_fill_name(KvFill fill);
/// Throws InputError naming `where` and what is allowed.
KvFill parse_kv_fill(std::string_view where, std::string_view text);

/// The identity of a measurement.
struct Case {
  std::string model;  // as the user wrote it
  Variant variant;
  Workload workload;
  std::string device = "cpu";
  int threads = 1;
  std::uint64_t seed = 1;

  bool operator==(const Case&) const = default;
};

/// What crossed the bus between host and device (SPEC S20); zeros on the CPU.
struct CaseTransfers {
  Transfers load;     // of the weights
  Transfers prefill;  // of one round, the choice of the first token included
  Transfers decode;   // all decode steps of one round

  bool operator==(const CaseTransfers&) const = default;
};

enum class Status { ok, skipped, oom, timeout, crash, failed, invalid };

/// Raw times; rounds in order. Seconds.
struct Samples {
  std::vector<double> ttft_s;                      // [rounds] token ids ready -> first token chosen
  std::vector<double> prefill_s;                   // [rounds] the prefill pass alone
  std::vector<std::vector<double>> step_s;         // [rounds][gen_tokens - 1]
  std::vector<double> device_prefill_s;            // [rounds] by the device's clock; empty where it has none
  std::vector<std::vector<double>> device_step_s;  // [rounds][gen_tokens - 1] the same
  std::vector<std::int64_t> step_rows;  // [gen_tokens] rows each pass projected; the first entry is the prefill
  std::vector<std::int64_t> step_dots;  // [gen_tokens] attention dots of each pass, one head, one layer (the first)
};

struct Output {
  std::string prompt_ids_sha256;  // of the ids as little-endian int32, sequences one after another
  std::string tokens_sha256;
  std::vector<std::int32_t> first_tokens;  // of sequence 0, at most 16
};

struct CaseResult {
  Case spec;
  Status status = Status::ok;
  std::string reason;  // of every status but ok; warnings of an ok one are in `warnings`
  std::vector<std::string> warnings;
  Samples samples;
  WorkCounters prefill_work;  // counted while running, one round
  WorkCounters decode_work;   // all decode steps of one round
  KvFootprint kv;             // at the end of the last round
  CaseTransfers transfers;    // of the last round
  std::int64_t workspace_bytes = 0;
  std::string gemv;  // what ran products of few rows; "" on the CPU
  Output output;
  std::vector<Disturbance> disturbances;  // [rounds]
};

}  // namespace kvlab
