// A plan as JSON.
#include "harness/plan.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

ordered_json phase_json(const PhasePlan& phase) {
  ordered_json json = {{"flops", phase.flops()},
                       {"gemm_flops", phase.gemm_flops},
                       {"attention_flops", phase.attention_flops},
                       {"bytes", phase.bytes()},
                       {"weight_bytes", phase.weight_bytes},
                       {"kv_read_bytes", phase.kv_read_bytes},
                       {"kv_write_bytes", phase.kv_write_bytes},
                       {"flops_per_byte", phase.flops_per_byte()}};
  if (phase.time) {
    json["roofline_s"] = phase.time->seconds;
    json["link_s"] = phase.time->link_s ? ordered_json(*phase.time->link_s) : ordered_json(nullptr);
    json["total_s"] = phase.time->total_s();
    json["bound"] = phase.time->bound();
  }
  return json;
}

ordered_json memory_json(const MemoryPlan& memory) {
  return {{"weight_bytes", memory.weight_bytes},
          {"kv_bytes", memory.kv_bytes},
          {"workspace_bytes", memory.workspace_bytes()},
          {"prefill_workspace_bytes", memory.prefill_workspace},
          {"decode_workspace_bytes", memory.decode_workspace},
          {"total_bytes", memory.total_bytes()}};
}

ordered_json fit_json(const std::optional<FitPlan>& fit) {
  if (!fit) return nullptr;
  return {{"fits", fit->fits()},
          {"left_bytes", fit->left_bytes},
          {"largest_batch", fit->largest_batch},
          {"largest_context", fit->largest_context}};
}

ordered_json hardware_json(const std::optional<Hardware>& hardware) {
  if (!hardware) return nullptr;
  return {{"name", hardware->name},
          {"source", hardware->source},
          {"memory_bytes", hardware->memory_bytes},
          {"memory_bytes_per_s", hardware->memory_bytes_per_s},
          {"flops_per_s", {{"f32", hardware->f32_flops_per_s}, {"bf16", hardware->bf16_flops_per_s}}},
          {"link_bytes_per_s",
           hardware->link_bytes_per_s ? ordered_json(*hardware->link_bytes_per_s) : ordered_json(nullptr)}};
}

ordered_json storage_json(const StoragePlan& storage) {
  ordered_json json = {{"weight_dtype", dtype_name(storage.weight_dtype)},
                       {"kv_dtype", dtype_name(storage.kv_dtype)},
                       {"weight_bytes", storage.weight_bytes}};
  for (const KvPlan& kv : storage.kv) {
    json["kv"][kv.heads] = {{"n_kv_heads", kv.n_kv_heads},
                            {"head_layer_bytes", kv.head_layer_bytes},
                            {"layer_bytes", kv.layer_bytes},
                            {"token_bytes", kv.token_bytes},
                            {"sequence_bytes", kv.sequence_bytes},
                            {"batch_bytes", kv.batch_bytes},
                            {"full_context_bytes", kv.full_context_bytes}};
  }
  json["prefill"] = phase_json(storage.prefill);
  json["decode_step"] = phase_json(storage.decode);
  json["memory"] = memory_json(storage.memory);
  json["fit"] = fit_json(storage.fit);
  return json;
}

}  // namespace

ordered_json plan_json(const Plan& plan) {
  ordered_json json = {{"model", plan.config.name},       {"variant", variant_label(plan.variant)},
                       {"context", plan.context},         {"batch", plan.batch},
                       {"parameters", plan.parameters},   {"hardware", hardware_json(plan.target.hardware)},
                       {"gpus", plan.target.gpus},        {"threads", plan.target.threads},
                       {"storage", ordered_json::array()}};
  for (const StoragePlan& storage : plan.storages) json["storage"].push_back(storage_json(storage));
  return json;
}

}  // namespace kvlab
