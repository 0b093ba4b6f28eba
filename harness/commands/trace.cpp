// kvlab trace: every operation of a prefill and of one decode step, with shapes.
#include "harness/trace.h"

#include <fmt/format.h>

#include "harness/commands/commands.h"
#include "harness/model_session.h"
#include "harness/output_file.h"
#include "harness/prompt.h"
#include "kernels/error.h"

namespace kvlab {
namespace {

void check_request(const TraceRequest& request) {
  if (request.format == "dot") {
    throw InputError(
        "--format dot draws the recorded graph, which comes with --execution graph; this build has eager only, so use "
        "table or json");
  }
  if (request.format != "table" && request.format != "json") {
    throw InputError(fmt::format("--format '{}': allowed are table, json, dot", request.format));
  }
  if (request.prompt_ids.empty()) throw InputError("--prompt-ids is empty: a trace needs at least one id");
}

}  // namespace

int run_trace(const TraceRequest& request) {
  check_request(request);
  const ModelRequest& model = request.model;
  ModelSession session(model.model, model.device, model.threads, model.seed);
  check_ids("--prompt-ids", request.prompt_ids, session.config().vocab_size);
  const auto n_tokens = static_cast<std::int64_t>(request.prompt_ids.size()) + 1;
  Decoder decoder(session.transformer(model.variant), model.variant, 1, n_tokens);
  const std::vector<TracedPhase> phases = trace_decoder(decoder, request.prompt_ids);
  if (request.format == "json") {
    OutputFile("--format", "-").write_json(trace_json(phases));
  } else {
    write_standard_output(trace_table(phases));
  }
  return 0;
}

}  // namespace kvlab
