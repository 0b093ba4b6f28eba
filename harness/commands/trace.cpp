// kvlab trace: every operation of a prefill and of one decode step, with shapes.
#include "harness/trace.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "harness/commands/commands.h"
#include "harness/graph_dot.h"
#include "harness/machine.h"
#include "harness/memory_plan.h"
#include "harness/model_session.h"
#include "harness/output_file.h"
#include "harness/prompt.h"
#include "harness/quantities.h"
#include "harness/threads.h"
#include "kernels/error.h"

namespace kvlab {
namespace {

void check_request(const TraceRequest& request) {
  if (request.format != "table" && request.format != "json" && request.format != "dot") {
    throw InputError(fmt::format("--format '{}': allowed are table, json, dot", request.format));
  }
  if (request.prompt_ids.empty()) throw InputError("--prompt-ids is empty: a trace needs at least one id");
}

/// Drawing more weights than this takes minutes, and the id that drawn weights choose tells nothing.
constexpr std::int64_t kMostDrawnBytes = 2'000'000'000;

/// Why the model is not run; "" when it is.
std::string why_shapes_only(const TraceRequest& request, const Checkpoint& checkpoint, std::int64_t n_tokens) {
  const std::unique_ptr<Operations> ops = make_cpu_operations(resolve_threads(request.model.threads));
  const std::int64_t needed = plan_memory(checkpoint.config, request.model.variant, n_tokens, 1, *ops).total_bytes();
  const std::int64_t available = read_machine().memory_available_bytes;
  if (available > 0 && needed > available) {
    return fmt::format("it needs {} bytes, {} are free", grouped(needed), grouped(available));
  }
  if (checkpoint.synthetic && needed > kMostDrawnBytes) {
    return fmt::format("it would take {} bytes of weights drawn at random", grouped(needed));
  }
  return "";
}

/// A checked request: what it reads, and whether the model is run.
struct Opened {
  Checkpoint checkpoint;
  std::int64_t n_tokens;
  std::string why_shapes_only;  // "": it is run
};

Opened open(const TraceRequest& request) {
  Checkpoint checkpoint = open_checkpoint(request.model.model, Need::config, request.model.seed);
  check_ids("--prompt-ids", request.prompt_ids, checkpoint.config.vocab_size);
  const auto n_tokens = static_cast<std::int64_t>(request.prompt_ids.size()) + 1;
  std::string why = why_shapes_only(request, checkpoint, n_tokens);
  return {std::move(checkpoint), n_tokens, std::move(why)};
}

std::vector<TracedPhase> trace(const TraceRequest& request) {
  const ModelRequest& model = request.model;
  const Opened opened = open(request);
  if (!opened.why_shapes_only.empty()) {
    const ModelConfig& config = opened.checkpoint.config;
    fmt::print(stderr, "kvlab: {} is not run, since {}: shapes and counts only\n", config.name, opened.why_shapes_only);
    return trace_shapes(config, model.variant, request.prompt_ids);
  }
  ModelSession session(model.model, model.device, model.threads, model.seed, model.gemv);
  Decoder decoder(session.transformer(model.variant), model.variant, 1, opened.n_tokens);
  return trace_decoder(decoder, request.prompt_ids);
}

/// What is drawn is a recorded graph, whatever --execution says.
std::string drawing(const TraceRequest& request) {
  const ModelRequest& model = request.model;
  const Opened opened = open(request);
  if (!opened.why_shapes_only.empty()) {
    throw InputError(
        fmt::format("--format dot draws a step that was recorded, and {} is not run, since {}: use table "
                    "or json, or a smaller model",
                    opened.checkpoint.config.name, opened.why_shapes_only));
  }
  Variant variant = model.variant;
  variant.execution = ExecutionKind::graph;
  ModelSession session(model.model, model.device, model.threads, model.seed, model.gemv);
  Decoder decoder(session.transformer(variant), variant, 1, opened.n_tokens);
  return trace_dot(decoder, request.prompt_ids);
}

}  // namespace

int run_trace(const TraceRequest& request) {
  check_request(request);
  if (request.format == "dot") {
    write_standard_output(drawing(request));
    return 0;
  }
  const std::vector<TracedPhase> phases = trace(request);
  if (request.format == "json") {
    OutputFile("--format", "-").write_json(trace_json(phases));
  } else {
    write_standard_output(trace_table(phases));
  }
  return 0;
}

}  // namespace kvlab
