// The arithmetic of a plan.
#include "harness/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/accounting.h"
#include "kernels/error.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

KvPlan kv_plan(const ModelConfig& config, Variant variant, const std::string& heads, std::int64_t context,
               std::int64_t batch) {
  find_axis("heads").set(variant, heads);
  KvPlan plan;
  plan.heads = heads;
  plan.n_kv_heads = reheaded_config(config, variant).n_kv_heads;
  plan.sequence_bytes = kv_reserved_bytes(config, variant, 1, context);
  plan.batch_bytes = kv_reserved_bytes(config, variant, batch, context);
  plan.full_context_bytes = kv_reserved_bytes(config, variant, 1, config.context_length);
  variant.page_size = 1;  // a single token, not the page that holds it
  plan.token_bytes = kv_reserved_bytes(config, variant, 1, 1);
  plan.layer_bytes = plan.token_bytes / config.n_layers;
  plan.head_layer_bytes = plan.layer_bytes / plan.n_kv_heads;
  return plan;
}

/// The model's own layout, the variant's where it is another, and both ends of the scale.
std::vector<std::string> head_layouts(const Variant& variant) {
  std::vector<std::string> layouts = {"model", "mha", "mqa"};
  const std::string own = find_axis("heads").get(variant);
  if (std::find(layouts.begin(), layouts.end(), own) == layouts.end()) layouts.push_back(own);
  return layouts;
}

PhasePlan phase_plan(const WorkCounters& work, DType weight_dtype, const std::optional<Hardware>& hardware) {
  PhasePlan phase;
  phase.gemm_flops = work.gemm_flops;
  phase.attention_flops = work.attention_flops;
  phase.weight_bytes = work.weight_bytes;
  phase.kv_read_bytes = work.kv_read_bytes;
  phase.kv_write_bytes = work.kv_write_bytes;
  if (hardware) {
    const double compute_s = static_cast<double>(phase.flops()) / hardware->flops_per_s(weight_dtype);
    const double memory_s = static_cast<double>(phase.bytes()) / hardware->memory_bytes_per_s;
    phase.time = RooflineTime{compute_s > memory_s, std::max(compute_s, memory_s)};
  }
  return phase;
}

StoragePlan storage_plan(const Plan& plan, DType weight_dtype, DType kv_dtype) {
  Variant variant = plan.variant;
  variant.weight_dtype = weight_dtype;
  variant.kv_dtype = kv_dtype;
  const Workload workload{plan.batch, 0, plan.context, 1};
  StoragePlan storage;
  storage.weight_dtype = weight_dtype;
  storage.kv_dtype = kv_dtype;
  storage.weight_bytes = stored_weight_bytes(plan.config, variant);
  for (const std::string& heads : head_layouts(variant)) {
    storage.kv.push_back(kv_plan(plan.config, variant, heads, plan.context, plan.batch));
  }
  storage.prefill = phase_plan(prefill_work(plan.config, variant, workload), weight_dtype, plan.hardware);
  storage.decode = phase_plan(decode_step_work(plan.config, variant, workload, 0), weight_dtype, plan.hardware);
  return storage;
}

}  // namespace

Plan make_plan(const ModelConfig& config, const Variant& variant, std::int64_t context, std::int64_t batch,
               const std::optional<Hardware>& hardware) {
  if (context < 1) throw InputError(fmt::format("--context: {} tokens; at least 1", context));
  if (batch < 1) throw InputError(fmt::format("--batch: {} sequences; at least 1", batch));
  if (context > config.context_length) {
    throw InputError(
        fmt::format("--context: {} tokens, the context of {} is {}", context, config.name, config.context_length));
  }
  Plan plan{config, variant, context, batch, parameter_count(reheaded_config(config, variant)), hardware, {}};
  plan.storages.push_back(storage_plan(plan, DType::bf16, DType::bf16));
  plan.storages.push_back(storage_plan(plan, DType::f32, DType::f32));
  if (variant.weight_dtype != variant.kv_dtype) {
    plan.storages.push_back(storage_plan(plan, variant.weight_dtype, variant.kv_dtype));
  }
  return plan;
}

}  // namespace kvlab
