// kvlab plan: footprint, FLOPs, bytes and roofline from a configuration alone.
#include "harness/plan.h"

#include "harness/commands/commands.h"
#include "harness/output_file.h"
#include "model/checkpoint.h"

namespace kvlab {

int run_plan(const PlanRequest& request) {
  OutputFile json("--json", request.json);
  const Checkpoint checkpoint = open_checkpoint(request.model.model, Need::config);
  std::optional<Hardware> hardware;
  if (!request.hardware.empty()) hardware = load_hardware(request.hardware);
  const Plan plan = make_plan(checkpoint.config, request.model.variant, request.context, request.batch, hardware);
  if (!json.is_standard_output()) write_standard_output(plan_text(plan));
  if (json.wanted()) json.write_json(plan_json(plan));
  return 0;
}

}  // namespace kvlab
