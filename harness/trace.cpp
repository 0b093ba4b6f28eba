// Records the operations of a decoder and lays them out.
#include "harness/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "harness/accounting.h"
#include "harness/quantities.h"
#include "harness/shape_backend.h"
#include "model/sampling/sampler.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

class Recorder : public StepObserver {
 public:
  void operation(const OperationRecord& record) override {
    operations_.push_back({std::string(record.name), record.layer, std::string(record.tensor), record.shape,
                           record.flops, record.weight_bytes, record.kv_read_bytes, record.kv_write_bytes});
  }
  std::vector<TracedOperation> take() { return std::exchange(operations_, {}); }

 private:
  std::vector<TracedOperation> operations_;
};

TracedPhase finish_phase(const std::string& name, const std::vector<std::int32_t>& tokens, const Decoder& decoder,
                         Recorder& recorder) {
  const std::int64_t vocab_size = decoder.config().vocab_size;
  const auto n_logits = static_cast<std::int64_t>(decoder.all_logits(0).size());
  return {name, tokens, recorder.take(), n_logits / vocab_size, std::nullopt};
}

std::int32_t greedy_id(const Decoder& decoder) {
  Sampler greedy(0);
  return greedy.choose(decoder.logits(0), decoder.config().vocab_size, {});
}

/// The prompt, then one step; `choose` gives the id that a phase ends with, or nothing.
template <typename Choose>
std::vector<TracedPhase> trace_phases(Decoder& decoder, const std::vector<std::int32_t>& prompt_ids,
                                      const Choose& choose) {
  Recorder recorder;
  decoder.observe(&recorder);
  const std::vector<std::vector<std::int32_t>> prompts = {prompt_ids};
  decoder.prefill(prompts);
  std::vector<TracedPhase> phases = {finish_phase("prefill", prompt_ids, decoder, recorder)};
  phases.back().chosen_id = choose();
  const std::vector<std::int32_t> next = {phases.front().chosen_id.value_or(prompt_ids.front())};
  decoder.decode(next);
  phases.push_back(finish_phase("decode", next, decoder, recorder));
  phases.back().chosen_id = choose();
  decoder.observe(nullptr);
  return phases;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ",")); }

std::string line(const std::string& layer, const std::string& operation, const std::string& tensor,
                 const std::string& shape, const std::string& flops, const std::string& weight_bytes,
                 const std::string& kv_bytes, const std::string& intensity) {
  const std::string text = fmt::format("{:>5}  {:<32} {:<18} {:<14} {:>16} {:>16} {:>16} {:>12}", layer, operation,
                                       tensor, shape, flops, weight_bytes, kv_bytes, intensity);
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string grouped_or_blank(std::int64_t count) { return count == 0 ? "" : grouped(count); }

/// FLOPs a byte of weights and KV; blank where nothing is counted.
std::string intensity_text(const TracedOperation& operation) {
  if (operation.bytes() == 0 || operation.flops == 0) return "";
  return fmt::format("{:.2f}", static_cast<double>(operation.flops) / static_cast<double>(operation.bytes()));
}

std::string operation_line(const TracedOperation& operation) {
  return line(operation.layer < 0 ? "-" : fmt::format("{}", operation.layer), operation.name, operation.tensor,
              shape_text(operation.shape), grouped_or_blank(operation.flops), grouped_or_blank(operation.weight_bytes),
              grouped_or_blank(operation.kv_read_bytes + operation.kv_write_bytes), intensity_text(operation));
}

std::string total_line(const TracedPhase& phase) {
  const TracedOperation total = phase.total();
  return fmt::format(
      "{} FLOPs; {} bytes = {} of weights + {} of KV read + {} of KV written; {} FLOP/byte; row {} of {} of the logits "
      "is used: {}\n",
      grouped(total.flops), grouped(total.bytes()), grouped(total.weight_bytes), grouped(total.kv_read_bytes),
      grouped(total.kv_write_bytes), intensity_text(total), phase.n_logit_rows, phase.n_logit_rows,
      phase.chosen_id ? fmt::format("greedy id {}", *phase.chosen_id) : "shapes only, no id is chosen");
}

ordered_json counts_json(const TracedOperation& counts) {
  ordered_json json = {{"flops", counts.flops},
                       {"bytes", counts.bytes()},
                       {"weight_bytes", counts.weight_bytes},
                       {"kv_read_bytes", counts.kv_read_bytes},
                       {"kv_write_bytes", counts.kv_write_bytes},
                       {"flops_per_byte", nullptr}};
  if (counts.bytes() > 0) {
    json["flops_per_byte"] = static_cast<double>(counts.flops) / static_cast<double>(counts.bytes());
  }
  return json;
}

}  // namespace

TracedOperation TracedPhase::total() const {
  TracedOperation total;
  for (const TracedOperation& operation : operations) {
    total.flops += operation.flops;
    total.weight_bytes += operation.weight_bytes;
    total.kv_read_bytes += operation.kv_read_bytes;
    total.kv_write_bytes += operation.kv_write_bytes;
  }
  return total;
}

std::vector<TracedPhase> trace_decoder(Decoder& decoder, const std::vector<std::int32_t>& prompt_ids) {
  return trace_phases(decoder, prompt_ids, [&] { return std::optional(greedy_id(decoder)); });
}

std::vector<TracedPhase> trace_shapes(const ModelConfig& config, const Variant& variant,
                                      const std::vector<std::int32_t>& prompt_ids) {
  Variant own_heads = variant;
  own_heads.heads = HeadsKind::model;
  const std::shared_ptr<const WeightSource> weights = make_shape_weights(reheaded_config(config, variant));
  Transformer transformer(make_shape_operations(), weights, own_heads);
  Decoder decoder(transformer, own_heads, 1, static_cast<std::int64_t>(prompt_ids.size()) + 1);
  return trace_phases(decoder, prompt_ids, [] { return std::optional<std::int32_t>(); });
}

std::string trace_table(const std::vector<TracedPhase>& phases) {
  std::string text;
  for (const TracedPhase& phase : phases) {
    text += fmt::format("{} of {} (ids {})\n", phase.phase,
                        phase.tokens.size() == 1 ? "1 token" : fmt::format("{} tokens", phase.tokens.size()),
                        fmt::join(phase.tokens, ","));
    text += line("layer", "operation", "tensor", "shape", "FLOPs", "weight bytes", "KV bytes", "FLOP/byte");
    for (const TracedOperation& operation : phase.operations) text += operation_line(operation);
    text += total_line(phase) + "\n";
  }
  return text;
}

ordered_json trace_json(const std::vector<TracedPhase>& phases) {
  auto list = ordered_json::array();
  for (const TracedPhase& phase : phases) {
    auto operations = ordered_json::array();
    for (const TracedOperation& operation : phase.operations) {
      operations.push_back({{"operation", operation.name},
                            {"layer", operation.layer < 0 ? ordered_json(nullptr) : ordered_json(operation.layer)},
                            {"tensor", operation.tensor},
                            {"shape", operation.shape}});
      operations.back().update(counts_json(operation));
    }
    list.push_back({{"phase", phase.phase},
                    {"tokens", phase.tokens},
                    {"operations", operations},
                    {"total", counts_json(phase.total())},
                    {"logits_row", phase.n_logit_rows - 1},
                    {"chosen_id", phase.chosen_id ? ordered_json(*phase.chosen_id) : ordered_json(nullptr)}});
  }
  return {{"phases", list}};
}

}  // namespace kvlab
