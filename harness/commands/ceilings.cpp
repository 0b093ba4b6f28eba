// kvlab ceilings: what this machine can read, copy and multiply per second.
#include "harness/ceilings.h"

#include <fmt/format.h>

#include "harness/commands/commands.h"
#include "harness/output_file.h"
#include "harness/report_fields.h"
#include "harness/threads.h"

namespace kvlab {

int run_ceilings(const CeilingsRequest& request) {
  constexpr double kBudgetS = 4;
  OutputFile json("--json", request.json);
  const int threads = resolve_threads(request.threads);
  const Ceilings ceilings = measure_ceilings(threads, kBudgetS);
  const nlohmann::ordered_json environment = environment_json({}, threads);
  if (!json.is_standard_output()) {
    write_standard_output(
        fmt::format("{}, {} threads\n"
                    "read       {:8.1f} GB/s\n"
                    "copy       {:8.1f} GB/s (read + written)\n"
                    "product    {:8.1f} GFLOP/s, f32 weights\n"
                    "product    {:8.1f} GFLOP/s, bf16 weights\n",
                    read_machine().cpu_model, threads, ceilings.read_bytes_per_s / 1e9, ceilings.copy_bytes_per_s / 1e9,
                    ceilings.gemm_flops_per_s_f32 / 1e9, ceilings.gemm_flops_per_s_bf16 / 1e9));
  }
  if (json.wanted()) {
    json.write_json(
        {{"ceilings", object_of_fields(ceiling_fields(), "ceilings.", ceilings)}, {"environment", environment}});
  }
  return 0;
}

}  // namespace kvlab
