// The arithmetic of a plan.
#include "harness/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/accounting.h"
#include "harness/tensor_parallel.h"
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

/// One device's part of a plan: what it works on, where.
struct Shard {
  ModelConfig config;  // after re-heading and splitting
  Variant variant;     // with the heads of `config`
  const Operations& ops;
};

/// What both a whole model and a shard of it can be asked for.
struct PhaseWork {
  WorkCounters whole;
  WorkCounters shard;
  double sent_bytes = 0;  // by each device
};

RooflineTime roofline_time(const PhaseWork& work, DType weight_dtype, const PlanTarget& target) {
  const WorkCounters& shard = work.shard;
  const double flops = static_cast<double>(shard.gemm_flops) + static_cast<double>(shard.attention_flops);
  const double bytes = static_cast<double>(shard.weight_bytes) + static_cast<double>(shard.kv_read_bytes) +
                       static_cast<double>(shard.kv_write_bytes);
  const double compute_s = flops / target.hardware->flops_per_s(weight_dtype);
  const double memory_s = bytes / target.hardware->memory_bytes_per_s;
  RooflineTime time{compute_s > memory_s, std::max(compute_s, memory_s), 0.0};
  if (target.gpus > 1) {
    time.link_s = std::nullopt;
    if (target.hardware->link_bytes_per_s) time.link_s = work.sent_bytes / *target.hardware->link_bytes_per_s;
  }
  return time;
}

PhasePlan phase_plan(const PhaseWork& work, DType weight_dtype, const PlanTarget& target) {
  PhasePlan phase;
  phase.gemm_flops = work.whole.gemm_flops;
  phase.attention_flops = work.whole.attention_flops;
  phase.weight_bytes = work.whole.weight_bytes;
  phase.kv_read_bytes = work.whole.kv_read_bytes;
  phase.kv_write_bytes = work.whole.kv_write_bytes;
  if (target.hardware) phase.time = roofline_time(work, weight_dtype, target);
  return phase;
}

FitPlan fit_plan(const Plan& plan, const Shard& shard, const MemoryPlan& memory) {
  FitPlan fit;
  fit.memory_bytes = plan.target.hardware->memory_bytes;
  fit.left_bytes = fit.memory_bytes - memory.total_bytes();
  fit.largest_batch = largest_batch(shard.config, shard.variant, plan.context, fit.memory_bytes, shard.ops);
  fit.largest_context = largest_context(shard.config, shard.variant, plan.batch, fit.memory_bytes, shard.ops);
  return fit;
}

void plan_phases(const Plan& plan, const Shard& shard, const Variant& variant, StoragePlan& storage) {
  const Workload workload{plan.batch, 0, plan.context, 1};
  const ModelConfig whole = reheaded_config(plan.config, variant);
  const auto work = [&](const WorkCounters& of_whole, const WorkCounters& of_shard) {
    const std::int64_t logit_rows = variant.logits == LogitsKind::all ? of_whole.rows : plan.batch;
    return PhaseWork{of_whole, of_shard, sent_bytes(whole, variant, of_whole.rows, logit_rows, plan.target.gpus)};
  };
  storage.prefill = phase_plan(
      work(prefill_work(plan.config, variant, workload), prefill_work(shard.config, shard.variant, workload)),
      variant.weight_dtype, plan.target);
  storage.decode = phase_plan(work(decode_step_work(plan.config, variant, workload, 0),
                                   decode_step_work(shard.config, shard.variant, workload, 0)),
                              variant.weight_dtype, plan.target);
}

StoragePlan storage_plan(const Plan& plan, DType weight_dtype, DType kv_dtype, const Operations& ops) {
  Variant variant = plan.variant;
  variant.weight_dtype = weight_dtype;
  variant.kv_dtype = kv_dtype;
  Shard shard{shard_config(reheaded_config(plan.config, variant), plan.target.gpus), variant, ops};
  shard.variant.heads = HeadsKind::model;
  StoragePlan storage;
  storage.weight_dtype = weight_dtype;
  storage.kv_dtype = kv_dtype;
  storage.weight_bytes = stored_weight_bytes(plan.config, variant);
  for (const std::string& heads : head_layouts(variant)) {
    storage.kv.push_back(kv_plan(plan.config, variant, heads, plan.context, plan.batch));
  }
  plan_phases(plan, shard, variant, storage);
  storage.memory = plan_memory(shard.config, shard.variant, plan.context, plan.batch, ops);
  if (plan.target.hardware) storage.fit = fit_plan(plan, shard, storage.memory);
  return storage;
}

void check_request(const ModelConfig& config, const Variant& variant, std::int64_t context, std::int64_t batch) {
  if (context < 1) throw InputError(fmt::format("--context: {} tokens; at least 1", context));
  if (batch < 1 || batch > kMostSequences) {
    throw InputError(fmt::format("--batch: {} sequences; allowed are 1 to {}", batch, kMostSequences));
  }
  if (context > config.context_length) {
    throw InputError(
        fmt::format("--context: {} tokens, the context of {} is {}", context, config.name, config.context_length));
  }
  if (variant.kv_capacity > 0 && context > variant.kv_capacity) {
    throw InputError(
        fmt::format("--context: {} tokens, but --kv-capacity reserves {} a sequence", context, variant.kv_capacity));
  }
}

}  // namespace

std::string RooflineTime::bound() const {
  if (link_s.value_or(0) > seconds) return "links";
  return bound_by_compute ? "compute" : "memory";
}

Plan make_plan(const ModelConfig& config, const Variant& variant, std::int64_t context, std::int64_t batch,
               const PlanTarget& target) {
  check_request(config, variant, context, batch);
  Plan plan{config, variant, context, batch, parameter_count(reheaded_config(config, variant)), target, {}};
  const std::unique_ptr<Operations> ops = make_cpu_operations(target.threads);
  plan.storages.push_back(storage_plan(plan, DType::bf16, DType::bf16, *ops));
  plan.storages.push_back(storage_plan(plan, DType::f32, DType::f32, *ops));
  if (variant.weight_dtype != variant.kv_dtype) {
    plan.storages.push_back(storage_plan(plan, variant.weight_dtype, variant.kv_dtype, *ops));
  }
  return plan;
}

}  // namespace kvlab
