// A plan as text and as JSON.
#include <fmt/format.h>

#include "harness/plan.h"
#include "harness/quantities.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

std::string storage_name(const StoragePlan& storage) {
  if (storage.weight_dtype != storage.kv_dtype) {
    return fmt::format("weights {}, KV {}", dtype_name(storage.weight_dtype), dtype_name(storage.kv_dtype));
  }
  return storage.weight_dtype == DType::f32 ? "32 bits (f32)" : "16 bits (bf16)";
}

std::string shape_text(const ModelConfig& c) {
  return fmt::format(
      "{}: {}, {} layers, {} query heads, {} KV heads of {}, hidden {}, MLP {}, vocabulary {}, context {}{}\n", c.name,
      c.architecture, c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim, c.hidden, c.ffn_hidden, c.vocab_size,
      c.context_length, c.sliding_window > 0 ? fmt::format(", window {}", c.sliding_window) : "");
}

std::string kv_text(const Plan& plan, const std::vector<KvPlan>& layouts) {
  struct Row {
    std::string name;
    std::int64_t KvPlan::*member;
  };
  const std::vector<Row> rows = {
      {"a token, per head and layer", &KvPlan::head_layer_bytes},
      {"a token, per layer", &KvPlan::layer_bytes},
      {"a token", &KvPlan::token_bytes},
      {fmt::format("a sequence of {}", grouped(plan.context)), &KvPlan::sequence_bytes},
      {fmt::format("{} such sequences", grouped(plan.batch)), &KvPlan::batch_bytes},
      {fmt::format("full context of {}", grouped(plan.config.context_length)), &KvPlan::full_context_bytes}};
  std::string text = fmt::format("    {:<30}", "KV cache");
  for (const KvPlan& kv : layouts) {
    text += fmt::format("{:>34}",
                        fmt::format("{} ({} KV {})", kv.heads, kv.n_kv_heads, kv.n_kv_heads == 1 ? "head" : "heads"));
  }
  text += "\n";
  for (const Row& row : rows) {
    text += fmt::format("    {:<30}", row.name);
    for (const KvPlan& kv : layouts) text += fmt::format("{:>34}", bytes_text(kv.*row.member));
    text += "\n";
  }
  return text;
}

std::string phase_text(const std::string& name, const PhasePlan& phase) {
  std::string text = fmt::format(
      "    {}\n"
      "      FLOPs       {} = {} in matrix products + {} in attention ({:.1f} %)\n"
      "      bytes       {} = {} of weights + {} of KV read + {} of KV written\n"
      "      intensity   {:.2f} FLOP/byte\n",
      name, grouped(phase.flops()), grouped(phase.gemm_flops), grouped(phase.attention_flops),
      100.0 * static_cast<double>(phase.attention_flops) / static_cast<double>(phase.flops()), grouped(phase.bytes()),
      grouped(phase.weight_bytes), grouped(phase.kv_read_bytes), grouped(phase.kv_write_bytes), phase.flops_per_byte());
  if (phase.time) {
    text += fmt::format("      roofline    {:.4g} ms, bound by {}\n", phase.time->seconds * 1e3,
                        phase.time->bound_by_compute ? "compute" : "memory");
  }
  return text;
}

std::string hardware_text(const Hardware& hardware) {
  return fmt::format("{}: {:.0f} GB, {:.0f} GB/s, {:.1f} TFLOP/s f32, {:.1f} TFLOP/s bf16, dense\n  {}\n",
                     hardware.name, static_cast<double>(hardware.memory_bytes) / 1e9, hardware.memory_bytes_per_s / 1e9,
                     hardware.f32_flops_per_s / 1e12, hardware.bf16_flops_per_s / 1e12, hardware.source);
}

/// KV bytes of the batch under the variant's own heads.
std::int64_t own_kv_bytes(const Plan& plan, const StoragePlan& storage) {
  const std::string heads = find_axis("heads").get(plan.variant);
  for (const KvPlan& kv : storage.kv) {
    if (kv.heads == heads) return kv.batch_bytes;
  }
  return 0;
}

std::string fit_text(const Plan& plan, const StoragePlan& storage) {
  const std::int64_t needed = storage.weight_bytes + own_kv_bytes(plan, storage);
  const bool fits = needed <= plan.hardware->memory_bytes;
  return fmt::format("    weights + KV of the batch: {}: {} {} bytes\n", bytes_text(needed),
                     fits ? "fits in" : "does not fit in", grouped(plan.hardware->memory_bytes));
}

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
    json["bound"] = phase.time->bound_by_compute ? "compute" : "memory";
  }
  return json;
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
  return json;
}

}  // namespace

std::string plan_text(const Plan& plan) {
  std::string text = shape_text(plan.config);
  text += fmt::format("variant {}, batch {}, context {}: {} parameters\n", variant_label(plan.variant), plan.batch,
                      grouped(plan.context), grouped(plan.parameters));
  if (plan.hardware) text += hardware_text(*plan.hardware);
  for (const StoragePlan& storage : plan.storages) {
    text += fmt::format("\n{}\n    weights   {}\n", storage_name(storage), bytes_text(storage.weight_bytes));
    text += kv_text(plan, storage.kv);
    text += phase_text(fmt::format("prefill of {} x {} tokens", plan.batch, grouped(plan.context)), storage.prefill);
    text += phase_text(
        fmt::format("decode step of {} sequences, newest row over {} positions", plan.batch, grouped(plan.context)),
        storage.decode);
    if (plan.hardware) text += fit_text(plan, storage);
  }
  return text;
}

ordered_json plan_json(const Plan& plan) {
  ordered_json json = {{"model", plan.config.name},       {"variant", variant_label(plan.variant)},
                       {"context", plan.context},         {"batch", plan.batch},
                       {"parameters", plan.parameters},   {"hardware", nullptr},
                       {"storage", ordered_json::array()}};
  if (plan.hardware) json["hardware"] = {{"name", plan.hardware->name}, {"source", plan.hardware->source}};
  for (const StoragePlan& storage : plan.storages) json["storage"].push_back(storage_json(storage));
  return json;
}

}  // namespace kvlab
