// Records the operations of a decoder and lays them out.
#include "harness/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "harness/quantities.h"
#include "model/sampling/sampler.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

class Recorder : public StepObserver {
 public:
  void operation(const OperationRecord& record) override {
    operations_.push_back({std::string(record.name), record.layer, std::string(record.tensor), record.shape,
                           record.flops, record.weight_bytes});
  }
  std::vector<TracedOperation> take() { return std::exchange(operations_, {}); }

 private:
  std::vector<TracedOperation> operations_;
};

TracedPhase finish_phase(const std::string& name, const std::vector<std::int32_t>& tokens, const Decoder& decoder,
                         Recorder& recorder) {
  const std::int64_t vocab_size = decoder.config().vocab_size;
  const auto n_logits = static_cast<std::int64_t>(decoder.all_logits(0).size());
  Sampler greedy(0);
  return {name, tokens, recorder.take(), n_logits / vocab_size, greedy.choose(decoder.logits(0), vocab_size, {})};
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ",")); }

std::string line(const std::string& layer, const std::string& operation, const std::string& tensor,
                 const std::string& shape, const std::string& flops, const std::string& weight_bytes) {
  const std::string text =
      fmt::format("{:>5}  {:<32} {:<18} {:<14} {:>16} {:>16}", layer, operation, tensor, shape, flops, weight_bytes);
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string grouped_or_blank(std::int64_t count) { return count == 0 ? "" : grouped(count); }

std::string operation_line(const TracedOperation& operation) {
  return line(operation.layer < 0 ? "-" : fmt::format("{}", operation.layer), operation.name, operation.tensor,
              shape_text(operation.shape), grouped_or_blank(operation.flops), grouped_or_blank(operation.weight_bytes));
}

}  // namespace

std::vector<TracedPhase> trace_decoder(Decoder& decoder, const std::vector<std::int32_t>& prompt_ids) {
  Recorder recorder;
  decoder.observe(&recorder);
  const std::vector<std::vector<std::int32_t>> prompts = {prompt_ids};
  decoder.prefill(prompts);
  std::vector<TracedPhase> phases = {finish_phase("prefill", prompt_ids, decoder, recorder)};
  const std::vector<std::int32_t> chosen = {phases.front().chosen_id};
  decoder.decode(chosen);
  phases.push_back(finish_phase("decode", chosen, decoder, recorder));
  decoder.observe(nullptr);
  return phases;
}

std::string trace_table(const std::vector<TracedPhase>& phases) {
  std::string text;
  for (const TracedPhase& phase : phases) {
    std::int64_t flops = 0;
    text += fmt::format("{} of {} (ids {})\n", phase.phase,
                        phase.tokens.size() == 1 ? "1 token" : fmt::format("{} tokens", phase.tokens.size()),
                        fmt::join(phase.tokens, ","));
    text += line("layer", "operation", "tensor", "shape", "FLOPs", "weight bytes");
    for (const TracedOperation& operation : phase.operations) {
      text += operation_line(operation);
      flops += operation.flops;
    }
    text += fmt::format("{} FLOPs; row {} of {} of the logits is used: greedy id {}\n\n", grouped(flops),
                        phase.n_logit_rows, phase.n_logit_rows, phase.chosen_id);
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
                            {"shape", operation.shape},
                            {"flops", operation.flops},
                            {"weight_bytes", operation.weight_bytes}});
    }
    list.push_back({{"phase", phase.phase},
                    {"tokens", phase.tokens},
                    {"operations", operations},
                    {"logits_row", phase.n_logit_rows - 1},
                    {"chosen_id", phase.chosen_id}});
  }
  return {{"phases", list}};
}

}  // namespace kvlab
