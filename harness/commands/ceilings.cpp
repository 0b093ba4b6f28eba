// kvlab ceilings: what this machine can read, write, copy and multiply per second, and what barriers and the harness
// cost.
#include "harness/ceilings.h"

#include <fmt/format.h>

#include "harness/ceiling_tables.h"
#include "harness/commands/commands.h"
#include "harness/device_ceilings.h"
#include "harness/devices.h"
#include "harness/machine.h"
#include "harness/output_file.h"
#include "harness/progress.h"
#include "harness/report_fields.h"
#include "harness/threads.h"
#include "kernels/error.h"

namespace kvlab {

namespace {

std::string summary_text(const std::string& machine, const Ceilings& ceilings) {
  return fmt::format(
      "{}: what a report of this machine divides by\n"
      "read       {:8.1f} GB/s\n"
      "write      {:8.1f} GB/s\n"
      "copy       {:8.1f} GB/s (read + written)\n"
      "product    {:8.1f} GFLOP/s, f32 weights\n"
      "product    {:8.1f} GFLOP/s, bf16 weights\n\n",
      machine, ceilings.read_bytes_per_s / 1e9, ceilings.write_bytes_per_s / 1e9, ceilings.copy_bytes_per_s / 1e9,
      ceilings.gemm_flops_per_s_f32 / 1e9, ceilings.gemm_flops_per_s_bf16 / 1e9);
}

/// A GPU's, by its own clock. Products are cuBLAS's whatever their rows, so that the table has one engine.
int run_device_ceilings(const CeilingsRequest& request, const std::string& device) {
  OutputFile json("--json", request.json);
  const int threads = resolve_threads(request.threads);
  const auto operations = make_operations(device, threads, GemvSetting::cublas);
  if (!has_device_clock(*operations)) {
    throw InputError(fmt::format("--device {}: it has no clock to measure with", device));
  }
  Progress progress;
  progress.show("ceilings of a report");
  const Ceilings ceilings = measure_device_ceilings(*operations);
  const DeviceTables tables =
      measure_device_tables(*operations, {}, [&](const std::string& what) { progress.show(what); });
  progress.clear();
  if (!json.is_standard_output()) {
    write_standard_output(summary_text(cuda_description(), ceilings) + device_tables_text(tables));
  }
  if (json.wanted()) {
    nlohmann::ordered_json object = {{"ceilings", object_of_fields(ceiling_fields(), "ceilings.", ceilings)}};
    object.update(device_tables_json(tables));
    object["environment"] = environment_json(request.argv, threads);
    json.write_json(object);
  }
  return 0;
}

}  // namespace

int run_ceilings(const CeilingsRequest& request) {
  const std::string device = resolve_measured_device(request.device);
  if (device != "cpu") return run_device_ceilings(request, device);
  constexpr double kBudgetS = 4;
  OutputFile json("--json", request.json);
  const int threads = resolve_threads(request.threads);
  Progress progress;
  progress.show("ceilings of a report");
  const Ceilings ceilings = measure_ceilings(threads, kBudgetS);
  const auto show = [&](const std::string& what) { progress.show(what); };
  const CeilingTables tables = measure_ceiling_tables(threads, {}, show);
  progress.clear();
  if (!json.is_standard_output()) {
    write_standard_output(summary_text(fmt::format("{}, {} threads", read_machine().cpu_model, threads), ceilings) +
                          ceiling_tables_text(tables));
  }
  if (json.wanted()) {
    nlohmann::ordered_json object = {{"ceilings", object_of_fields(ceiling_fields(), "ceilings.", ceilings)}};
    object.update(ceiling_tables_json(tables));
    object["environment"] = environment_json(request.argv, threads);
    json.write_json(object);
  }
  return 0;
}

}  // namespace kvlab
