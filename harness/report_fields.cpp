// Fields of cases, results and ceilings, in the order of a report.
#include "harness/report_fields.h"

#include "variants/registry.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;
using ResultFields = std::vector<FieldOf<JudgedResult>>;
using enum FieldSource;

/// Adds a field of the result itself.
template <typename Getter>
void add(ResultFields& list, const std::string& path, const char* unit, FieldSource source, const char* sentence,
         Getter getter) {
  list.push_back({{"results[]." + path, unit, source, sentence},
                  [getter](const JudgedResult& row) { return json_value(getter(row.result)); }});
}

/// Adds a field of results[].metrics; null when the row has no metrics.
template <typename Getter>
void add_metric(ResultFields& list, const std::string& path, const char* unit, FieldSource source,
                const std::string& sentence, Getter getter) {
  list.push_back({{"results[].metrics." + path, unit, source, sentence}, [getter](const JudgedResult& row) {
                    return row.metrics ? json_value(getter(*row.metrics, row.result)) : ordered_json(nullptr);
                  }});
}

void add_samples(ResultFields& list) {
  using R = CaseResult;
  add(list, "status", "", derived,
      "ok, skipped, oom, timeout, crash, failed (another output than the reference) or invalid (cannot be right).",
      [](const R& r) { return std::string(status_name(r.status)); });
  add(list, "reason", "", derived, "Why the status is not ok; null when it is.",
      [](const R& r) { return r.reason.empty() ? std::nullopt : std::optional(r.reason); });
  add(list, "warnings", "", derived, "Remarks on a row that stands: what was left out and why.",
      [](const R& r) { return r.warnings; });
  add(list, "samples.ttft_s", "s", measured, "[rounds] From token ids ready to the first token chosen.",
      [](const R& r) { return r.samples.ttft_s; });
  add(list, "samples.prefill_s", "s", measured, "[rounds] The prefill passes alone, without choosing the token.",
      [](const R& r) { return r.samples.prefill_s; });
  add(list, "samples.step_s", "s", measured,
      "[rounds][gen_tokens - 1] Each decode step as the host sees it: from one choice to the next.",
      [](const R& r) { return r.samples.step_s; });
  add(list, "samples.device_prefill_s", "s", measured,
      "[rounds] The prefill by the device's clock; empty where it has none.",
      [](const R& r) { return r.samples.device_prefill_s; });
  add(list, "samples.device_step_s", "s", measured,
      "[rounds][gen_tokens - 1] Each decode step by the device's clock; empty where it has none.",
      [](const R& r) { return r.samples.device_step_s; });
  add(list, "samples.step_rows", "rows", measured,
      "[gen_tokens] Rows projected, counted while running; the first entry is the prefill.",
      [](const R& r) { return r.samples.step_rows; });
  add(list, "samples.step_dots", "dots", measured,
      "[gen_tokens] Dot products of queries with keys, one query head of the first layer, counted while running.",
      [](const R& r) { return r.samples.step_dots; });
}

using M = Metrics;
using R = CaseResult;

/// Fields of both phases that place it under the roof.
void add_roofline(ResultFields& list, const std::string& phase, PhaseMetrics M::*member) {
  const auto put = [&](const char* name, const char* unit, FieldSource source, const char* sentence, auto getter) {
    add_metric(list, phase + "." + name, unit, source, sentence,
               [member, getter](const M& m, const R&) { return getter(m.*member); });
  };
  using P = PhaseMetrics;
  put("bytes", "bytes", modelled, "Weights that each pass used, once a pass, + KV read + KV written; of a round.",
      [](const P& p) { return p.bytes; });
  put("intensity", "FLOP/byte", derived, "flops over bytes.", [](const P& p) { return p.roofline.intensity; });
  put("attainable_flops_per_s", "FLOP/s", derived,
      "The roof over the phase: the smaller of the ceiling of products and intensity times ceilings.read_bytes_per_s.",
      [](const P& p) { return p.roofline.attainable_flops_per_s; });
  put("attained_share", "1", derived, "flops_per_s over attainable_flops_per_s.",
      [](const P& p) { return p.roofline.attained_share; });
  put("bound", "", derived, "Which of the two is the smaller: compute or memory.",
      [](const P& p) -> std::optional<std::string> {
        if (!p.roofline.bound_by_compute) return std::nullopt;
        return *p.roofline.bound_by_compute ? "compute" : "memory";
      });
  put("datasheet_mfu", "1", derived,
      "flops_per_s over the datasheet's rate of the weight dtype; null unless a file of configs/hardware names the "
      "device.",
      [](const P& p) { return p.datasheet_mfu; });
  put("datasheet_mbu", "1", derived, "bytes a second over the datasheet's memory bandwidth; null likewise.",
      [](const P& p) { return p.datasheet_mbu; });
}

void add_rates(ResultFields& list) {
  add_metric(list, "prefill.tokens_per_s", "tokens/s", derived,
             "Prompt tokens of all sequences over the median of prefill_s.",
             [](const M& m, const R&) { return m.prefill.tokens_per_s; });
  add_metric(list, "prefill.flops", "FLOP", measured,
             "Matrix products and attention of the prefill, 2 per multiply-add, counted while running.",
             [](const M& m, const R&) { return m.prefill.flops; });
  add_metric(list, "prefill.flops_per_s", "FLOP/s", derived, "flops over the median of prefill_s.",
             [](const M& m, const R&) { return m.prefill.flops_per_s; });
  add_metric(list, "prefill.mfu", "1", derived,
             "flops_per_s over ceilings.gemm_flops_per_s of the weight dtype: measured on this machine, in this run.",
             [](const M& m, const R&) { return m.prefill.mfu; });
  add_metric(list, "prefill.attention_share", "1", derived, "Attention's share of the prefill's FLOPs.",
             [](const M& m, const R&) { return m.prefill.attention_share; });
  add_roofline(list, "prefill", &M::prefill);
  add_metric(list, "decode.tokens_per_s", "tokens/s", derived,
             "Tokens of all sequences that decode steps gave over the median round's sum of step_s.",
             [](const M& m, const R&) { return m.decode.tokens_per_s; });
  add_metric(list, "decode.flops", "FLOP", measured, "FLOPs of all decode steps of a round, counted while running.",
             [](const M& m, const R&) { return m.decode.flops; });
  add_metric(list, "decode.flops_per_s", "FLOP/s", derived, "flops over the median round's sum of step_s.",
             [](const M& m, const R&) { return m.decode.flops_per_s; });
  add_metric(list, "decode.mfu", "1", derived, "flops_per_s over ceilings.gemm_flops_per_s of the weight dtype.",
             [](const M& m, const R&) { return m.decode.mfu; });
  add_metric(
      list, "decode.bytes_per_step", "bytes", modelled,
      "Mean over the steps of: weights used, once each, + KV read + KV written. Caches of the CPU are not modelled.",
      [](const M& m, const R&) { return m.bytes_per_step; });
  add_metric(list, "decode.bytes_per_s", "bytes/s", derived,
             "bytes_per_step times the steps, over the median round's sum of step_s.",
             [](const M& m, const R&) { return m.bytes_per_s; });
  add_metric(list, "decode.mbu", "1", derived,
             "bytes_per_s over ceilings.read_bytes_per_s: measured on this machine, in this run.",
             [](const M& m, const R&) { return m.mbu; });
  add_roofline(list, "decode", &M::decode);
}

/// What disturbed each round from outside.
void add_disturbances(ResultFields& list) {
  const auto put = [&](const char* name, const char* unit, const char* sentence, auto getter) {
    add(list, std::string("disturbance.") + name, unit, measured, sentence, [getter](const R& r) {
      auto values = ordered_json::array();
      for (const Disturbance& round : r.disturbances) values.push_back(getter(round));
      return values;
    });
  };
  using D = Disturbance;
  put("wall_s", "s", "[rounds] From before the first pass to after the last.", [](const D& d) { return d.wall_s; });
  put("other_cpu_s", "s",
      "[rounds] CPU time of other processes; slightly negative when nothing else ran, since the system counts ticks.",
      [](const D& d) { return d.other_cpu_s; });
  put("steal_s", "s", "[rounds] CPU time that the hypervisor gave to others, all CPUs.",
      [](const D& d) { return d.steal_s; });
  put("quota_s", "s", "[rounds] Time in which a CPU quota stopped the program.", [](const D& d) { return d.quota_s; });
  put("thermal_events", "", "[rounds] Times that heat lowered a clock.", [](const D& d) { return d.thermal_events; });
  put("cpu_mhz", "MHz", "[rounds] Clock of the driving core right after the round; null where the system hides it.",
      [](const D& d) { return measured_or_null(d.cpu_mhz); });
  put("gpu_mhz", "MHz", "[rounds] The GPU's clock right after the round; null on the CPU.",
      [](const D& d) { return measured_or_null(d.gpu_mhz); });
  put("gpu_slowdowns", "", "[rounds] Why the GPU's clock was lowered, before or after the round: [names].",
      [](const D& d) { return ordered_json(clock_event_names(d.gpu_slowdowns)); });
  put("gpu_memory_mhz", "MHz", "[rounds] The clock of the GPU's memory right after the round; null on the CPU.",
      [](const D& d) { return measured_or_null(d.gpu_memory_mhz); });
  put("gpu_power_w", "W", "[rounds] The GPU's power draw right after the round; null on the CPU.",
      [](const D& d) { return measured_or_null(d.gpu_power_w); });
  put("gpu_temperature_c", "degrees Celsius", "[rounds] The GPU's temperature right after the round; null on the CPU.",
      [](const D& d) { return measured_or_null(d.gpu_temperature_c); });
  put("gpu_clock_events", "",
      "[rounds] Every reason why the GPU's clock was not higher, before or after the round, idle among them: [names].",
      [](const D& d) { return ordered_json(clock_event_names(d.gpu_clock_events)); });
}

void add_summary(ResultFields& list, const std::string& path, const std::string& of, Summary M::*member) {
  const auto put = [&](const char* name, const std::string& sentence, auto getter) {
    add_metric(list, path + "." + name, "s", derived, sentence,
               [member, getter](const M& m, const R&) { return getter(m.*member); });
  };
  put("mean", "Mean of " + of + ".", [](const Summary& s) { return s.mean; });
  put("p50", "Median of " + of + "; percentiles interpolate linearly between closest ranks.",
      [](const Summary& s) { return s.p50; });
  put("p90", "90th percentile of " + of + "; null below 10 samples.", [](const Summary& s) { return s.p90; });
  put("p95", "95th percentile of " + of + "; null below 20 samples.", [](const Summary& s) { return s.p95; });
  put("p99", "99th percentile of " + of + "; null below 100 samples.", [](const Summary& s) { return s.p99; });
  put("max", "Largest of " + of + ".", [](const Summary& s) { return s.max; });
  put("mad", "Median absolute deviation of " + of + " from p50.", [](const Summary& s) { return s.mad; });
  put("ci95", "[low, high] 95 % interval of the median: whole rounds drawn with replacement; null below 2 rounds.",
      [](const Summary& s) -> std::optional<std::vector<double>> {
        if (!s.ci95) return std::nullopt;
        return std::vector<double>{s.ci95->low, s.ci95->high};
      });
}

/// A value and the ends of its 95 % interval.
void add_estimate(ResultFields& list, const std::string& path, const char* unit, const std::string& sentence,
                  std::optional<Estimate> M::*member) {
  const auto put = [&](const char* name, const std::string& text, double Estimate::*part) {
    add_metric(list, path + "." + name, unit, derived, text,
               [member, part](const M& m, const R&) -> std::optional<double> {
                 if (!(m.*member)) return std::nullopt;
                 return *(m.*member).*part;
               });
  };
  put("value", sentence, &Estimate::value);
  put("low", "Lower end of its 95 % interval.", &Estimate::low);
  put("high", "Upper end of its 95 % interval.", &Estimate::high);
}

void add_latency(ResultFields& list) {
  add_summary(list, "latency.ttft_s", "time to first token over rounds", &M::ttft_s);
  add_summary(list, "latency.step_s", "decode steps of all rounds", &M::step_s);
  add_summary(list, "latency.device_step_s", "decode steps of all rounds by the device's clock", &M::device_step_s);
  add_metric(list, "latency.e2e_s", "s", derived, "Median over rounds of ttft_s + the sum of step_s.",
             [](const M& m, const R&) { return m.e2e_s; });
  add_metric(list, "latency.prefill_share", "1", derived, "1 - decode_share.",
             [](const M& m, const R&) { return m.prefill_share; });
  add_metric(list, "latency.decode_share", "1", derived,
             "Median over rounds of the sum of step_s over the whole round.",
             [](const M& m, const R&) { return m.decode_share; });
  add_metric(list, "latency.step_growth", "1", derived,
             "Median step of the last quarter of a generation over that of the first; null below 8 steps.",
             [](const M& m, const R&) { return m.step_growth; });
  add_estimate(
      list, "latency.step_slope_s_per_token", "s/token",
      "How much a decode step grows per token that each sequence has in the cache: mean over rounds of Theil and "
      "Sen's slope (docs/measuring.md); null below 2 rounds of 8 steps.",
      &M::step_slope_s_per_token);
}

void add_kv(ResultFields& list) {
  add_metric(list, "kv.bytes_per_token", "bytes", measured, "KV bytes of one token of one sequence in all layers.",
             [](const M&, const R& r) { return r.kv.bytes_per_token; });
  add_metric(list, "kv.used_bytes", "bytes", measured, "Tokens held at the end times bytes_per_token.",
             [](const M&, const R& r) { return r.kv.used_bytes; });
  add_metric(list, "kv.reserved_bytes", "bytes", measured, "Set aside for the live sequences: regions, or pages.",
             [](const M&, const R& r) { return r.kv.reserved_bytes; });
  add_metric(list, "kv.table_bytes", "bytes", measured, "Page tables.",
             [](const M&, const R& r) { return r.kv.table_bytes; });
  add_metric(list, "kv.theoretical_bytes", "bytes", modelled,
             "bytes_per_token by formula times the tokens of all sequences at the end of a round.",
             [](const M& m, const R&) { return m.kv.theoretical_bytes; });
  add_metric(list, "kv.tail_waste_bytes", "bytes", derived, "Free slots in the last pages: cache=paged.",
             [](const M& m, const R&) { return m.kv.tail_waste_bytes; });
  add_metric(list, "kv.reserve_waste_bytes", "bytes", derived,
             "Free slots of regions that were set aside whole: cache=contiguous and qkv.",
             [](const M& m, const R&) { return m.kv.reserve_waste_bytes; });
  add_metric(list, "kv.peak_bytes", "bytes", measured,
             "The most that was set aside at one time during the round, page tables included.",
             [](const M&, const R& r) { return r.kv.peak_bytes; });
  add_metric(list, "kv.waste_fraction", "1", derived, "1 - used_bytes / reserved_bytes; null when nothing is reserved.",
             [](const M& m, const R&) { return m.waste_fraction; });
  add_metric(list, "kv.workspace_bytes", "bytes", measured,
             "Activations and scratch, which do not outlive a pass; without a cache also the pass's K and V.",
             [](const M&, const R& r) { return r.workspace_bytes; });
}

void add_work(ResultFields& list) {
  const auto put = [&](const char* name, const char* unit, FieldSource source, const char* sentence, auto member) {
    add_metric(list, std::string("work.") + name, unit, source, sentence,
               [member](const M& m, const R&) { return m.work.*member; });
  };
  using W = WorkCounters;
  put("kv_projection_rows", "rows", measured, "Rows projected to K and V in one layer, prefill and decode of a round.",
      &W::kv_projection_rows);
  put("attention_dots", "dots", measured, "[n_layers] Dot products that one query head executed in a round.",
      &W::attention_dots);
  put("attention_dots_newest_row", "dots", measured,
      "[n_layers] Those of each pass's newest row of each sequence, one query head.", &W::attention_dots_newest_row);
  put("gemm_flops", "FLOP", measured, "Projections, MLP and LM head of a round, 2 per multiply-add.", &W::gemm_flops);
  put("attention_flops", "FLOP", measured, "4 n_heads head_dim per dot of a round.", &W::attention_flops);
  put("weight_bytes", "bytes", modelled,
      "Weights that each pass of a round used, once a pass, at the weight dtype; one embedding row per row.",
      &W::weight_bytes);
  put("kv_read_bytes", "bytes", modelled, "Distinct K and V rows that each pass of a round read, once a pass.",
      &W::kv_read_bytes);
  put("kv_write_bytes", "bytes", modelled, "K and V rows (and Q rows, cache=qkv) that a round stored.",
      &W::kv_write_bytes);
}

/// One direction; 0 on the CPU, where there is no bus.
void add_transfer(ResultFields& list, const char* direction, const char* where, std::int64_t Transfers::*bytes) {
  const auto put = [&](const char* when, const char* what, auto getter) {
    add_metric(list, std::string("transfer.") + direction + "_bytes." + when, "bytes", measured,
               std::string("Bytes that cross the bus ") + where + " " + what + "; 0 on the CPU, where there is none.",
               getter);
  };
  put("load", "when the weights are loaded", [bytes](const M&, const R& r) { return r.transfers.load.*bytes; });
  put("prefill", "in the prefill of a round, the first choice included",
      [bytes](const M&, const R& r) { return r.transfers.prefill.*bytes; });
  put("per_step", "in a decode step, the mean of a round's in whole bytes", [bytes](const M&, const R& r) {
    const std::int64_t n_steps = r.spec.workload.gen_tokens - 1;
    return n_steps > 0 ? r.transfers.decode.*bytes / n_steps : 0;
  });
}

void add_transfer_and_output(ResultFields& list) {
  add_transfer(list, "h2d", "to the device", &Transfers::to_device_bytes);
  add_transfer(list, "d2h", "to the host", &Transfers::to_host_bytes);
  add(list, "gemv", "", measured,
      "What ran products of up to 8 rows, our GEMV or cuBLAS, as forced or as measured; null on the CPU.",
      [](const R& r) { return r.gemv.empty() ? std::nullopt : std::optional(r.gemv); });
  add(list, "output.prompt_ids_sha256", "", measured,
      "SHA-256 of the prompt ids as little-endian int32, sequences one after another.",
      [](const R& r) { return r.output.prompt_ids_sha256; });
  add(list, "output.tokens_sha256", "", measured, "SHA-256 of the chosen ids, in the same form.",
      [](const R& r) { return r.output.tokens_sha256; });
  add(list, "output.first_tokens", "", measured, "At most 16 chosen ids of sequence 0.",
      [](const R& r) { return r.output.first_tokens; });
}

ordered_json axis_value(const Axis& axis, const Variant& variant) {
  const std::string text = axis.get(variant);
  return axis.integer ? ordered_json(std::stoll(text)) : ordered_json(text);
}

std::vector<FieldOf<Case>> make_case_fields() {
  std::vector<FieldOf<Case>> list;
  const auto put = [&](const std::string& path, const char* unit, const std::string& sentence, auto getter) {
    list.push_back({{"results[].case." + path, unit, configured, sentence}, getter});
  };
  put("model", "", "The model as it was asked for.", [](const Case& c) { return ordered_json(c.model); });
  for (const Axis& axis : axes()) {
    put("variant." + axis.name, "", "Axis: " + axis.sentence + ".",
        [&axis](const Case& c) { return axis_value(axis, c.variant); });
  }
  put("workload.batch", "sequences", "Sequences that run side by side.",
      [](const Case& c) { return ordered_json(c.workload.batch); });
  put("workload.depth", "tokens", "Tokens in the cache before the measured prompt begins.",
      [](const Case& c) { return ordered_json(c.workload.depth); });
  put("workload.kv_fill", "",
      "Where their K and V come from: prefill (untimed passes over tokens) or random (drawn, no pass).",
      [](const Case& c) { return ordered_json(std::string(kv_fill_name(c.workload.kv_fill))); });
  put("workload.prompt_tokens", "tokens", "Tokens of the measured prompt, a sequence.",
      [](const Case& c) { return ordered_json(c.workload.prompt_tokens); });
  put("workload.gen_tokens", "tokens", "Tokens generated, a sequence: one by the prefill, the others by decode steps.",
      [](const Case& c) { return ordered_json(c.workload.gen_tokens); });
  put("device", "", "Where it ran.", [](const Case& c) { return ordered_json(c.device); });
  put("threads", "threads", "CPU threads.", [](const Case& c) { return ordered_json(c.threads); });
  put("seed", "", "Seed of synthetic weights, seeded prompts and the order of pages.",
      [](const Case& c) { return ordered_json(c.seed); });
  return list;
}

}  // namespace

const std::vector<FieldOf<Case>>& case_fields() {
  static const std::vector<FieldOf<Case>> list = make_case_fields();
  return list;
}

const std::vector<FieldOf<JudgedResult>>& result_fields() {
  static const ResultFields list = [] {
    ResultFields fields;
    add_samples(fields);
    add_disturbances(fields);
    add_rates(fields);
    add_latency(fields);
    add_kv(fields);
    add_work(fields);
    add_transfer_and_output(fields);
    return fields;
  }();
  return list;
}

const std::vector<FieldOf<Ceilings>>& ceiling_fields() {
  static const std::vector<FieldOf<Ceilings>> list = {
      {{"ceilings.read_bytes_per_s", "bytes/s", measured,
        "Reading arrays larger than the caches: all threads, or the whole GPU."},
       [](const Ceilings& c) { return ordered_json(c.read_bytes_per_s); }},
      {{"ceilings.copy_bytes_per_s", "bytes/s", measured, "Copying such arrays; bytes read + bytes written."},
       [](const Ceilings& c) { return ordered_json(c.copy_bytes_per_s); }},
      {{"ceilings.gemm_flops_per_s.f32", "FLOP/s", measured,
        "A large square product with f32 weights; by cuBLAS on a GPU."},
       [](const Ceilings& c) { return ordered_json(c.gemm_flops_per_s_f32); }},
      {{"ceilings.gemm_flops_per_s.bf16", "FLOP/s", measured, "The same through the path of bf16 weights."},
       [](const Ceilings& c) { return ordered_json(c.gemm_flops_per_s_bf16); }},
      {{"ceilings.write_bytes_per_s", "bytes/s", measured,
        "Writing such arrays, on the CPU as memset does; null in older ones."},
       [](const Ceilings& c) { return measured_or_null(c.write_bytes_per_s); }},
      {{"ceilings.fork_join_s", "s", measured, "An empty parallel region of all threads; null on a GPU."},
       [](const Ceilings& c) { return measured_or_null(c.fork_join_s); }},
      {{"ceilings.barrier_s", "s", measured, "One barrier of all threads inside a region; null on a GPU."},
       [](const Ceilings& c) { return measured_or_null(c.barrier_s); }},
      {{"ceilings.harness_overhead_s", "s", measured,
        "Median step of the measured loop over a model that does nothing: what the harness adds to every step_s."},
       [](const Ceilings& c) { return measured_or_null(c.harness_overhead_s); }},
      {{"ceilings.launch_s", "s", measured,
        "GPU: an empty kernel among others that are launched one by one, by the GPU's clock; null on the CPU."},
       [](const Ceilings& c) { return measured_or_null(c.launch_s); }},
      {{"ceilings.graph_launch_s", "s", measured, "GPU: the same within a graph; null on the CPU."},
       [](const Ceilings& c) { return measured_or_null(c.graph_launch_s); }},
      {{"ceilings.event_s", "s", measured, "GPU: an event between two others, by its clock; null on the CPU."},
       [](const Ceilings& c) { return measured_or_null(c.event_s); }},
      {{"ceilings.launch_round_trip_s", "s", measured,
        "GPU: an empty kernel and the wait until its end is known, by the host's clock; null on the CPU."},
       [](const Ceilings& c) { return measured_or_null(c.launch_round_trip_s); }},
  };
  return list;
}

}  // namespace kvlab
