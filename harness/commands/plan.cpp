// kvlab plan: footprint, FLOPs, bytes and roofline from a configuration alone.
#include "harness/plan.h"

#include "harness/commands/commands.h"
#include "harness/output_file.h"
#include "harness/threads.h"
#include "kernels/error.h"
#include "model/checkpoint.h"

namespace kvlab {
namespace {

PlanTarget plan_target(const PlanRequest& request) {
  PlanTarget target;
  target.gpus = request.gpus;
  target.threads = resolve_threads(request.model.threads);
  if (request.hardware == kThisMachine) {
    if (request.gpus > 1) throw InputError("--gpus: `this` is one machine; name one of configs/hardware");
    target.hardware = measure_this_machine(target.threads);
  } else if (!request.hardware.empty()) {
    target.hardware = load_hardware(request.hardware);
  }
  return target;
}

}  // namespace

int run_plan(const PlanRequest& request) {
  OutputFile json("--json", request.json);
  const Checkpoint checkpoint = open_checkpoint(request.model.model, Need::config);
  const Plan plan =
      make_plan(checkpoint.config, request.model.variant, request.context, request.batch, plan_target(request));
  if (!json.is_standard_output()) write_standard_output(plan_text(plan));
  if (json.wanted()) json.write_json(plan_json(plan));
  return 0;
}

}  // namespace kvlab
