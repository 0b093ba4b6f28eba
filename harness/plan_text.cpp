// A plan as text.
#include <fmt/format.h>

#include "harness/plan.h"
#include "harness/quantities.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

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

std::string time_text(const PlanTarget& target, const RooflineTime& time) {
  if (target.gpus == 1)
    return fmt::format("      roofline    {:.4g} ms, bound by {}\n", time.seconds * 1e3, time.bound());
  const std::string of_each =
      fmt::format("      roofline    {:.4g} ms on each of {} GPUs", time.seconds * 1e3, target.gpus);
  if (!time.link_s) return of_each + fmt::format(", bound by {}; sums between them left out\n", time.bound());
  return of_each + fmt::format(" + {:.4g} ms of sums between them = {:.4g} ms, bound by {}\n", *time.link_s * 1e3,
                               time.total_s() * 1e3, time.bound());
}

std::string phase_text(const std::string& name, const PhasePlan& phase, const PlanTarget& target) {
  std::string text = fmt::format(
      "    {}\n"
      "      FLOPs       {} = {} in matrix products + {} in attention ({:.1f} %)\n"
      "      bytes       {} = {} of weights + {} of KV read + {} of KV written\n"
      "      intensity   {:.2f} FLOP/byte\n",
      name, grouped(phase.flops()), grouped(phase.gemm_flops), grouped(phase.attention_flops),
      100.0 * static_cast<double>(phase.attention_flops) / static_cast<double>(phase.flops()), grouped(phase.bytes()),
      grouped(phase.weight_bytes), grouped(phase.kv_read_bytes), grouped(phase.kv_write_bytes), phase.flops_per_byte());
  if (phase.time) text += time_text(target, *phase.time);
  return text;
}

std::string hardware_text(const Hardware& hardware) {
  return fmt::format("{}: {:.4g} GB, {:.4g} GB/s, {:.4g} TFLOP/s f32, {:.4g} TFLOP/s bf16, dense{}\n  {}\n",
                     hardware.name, static_cast<double>(hardware.memory_bytes) / 1e9, hardware.memory_bytes_per_s / 1e9,
                     hardware.f32_flops_per_s / 1e12, hardware.bf16_flops_per_s / 1e12,
                     hardware.link_bytes_per_s
                         ? fmt::format(", links of {:.4g} GB/s a direction", *hardware.link_bytes_per_s / 1e9)
                         : std::string(),
                     hardware.source);
}

std::string split_text(const PlanTarget& target) {
  if (target.gpus == 1) return "";
  std::string text = fmt::format(
      "{} GPUs, tensor parallel: query heads, KV heads, MLP and vocabulary split evenly, norms and residual stream on "
      "each;\n  memory and roofline are of one GPU, FLOPs and bytes of all\n",
      target.gpus);
  if (!target.hardware) return text;
  return text +
         (target.hardware->link_bytes_per_s
              ? "  sums between GPUs: ring all-reduce of f32 rows, twice a layer and once for the embedding, and "
                "the logits gathered;\n  at the full rate of the links, without latency and without overlap\n"
              : "  sums between GPUs take no time here: the datasheet has no link\n");
}

std::string fit_text(const Plan& plan, const FitPlan& fit) {
  const std::string in = fmt::format("{} bytes", grouped(fit.memory_bytes));
  std::string text = fit.fits() ? fmt::format("fits in {}, leaves {}", in, bytes_text(fit.left_bytes))
                                : fmt::format("does not fit in {}: {} too many", in, bytes_text(-fit.left_bytes));
  const bool whole_context = fit.largest_context == plan.config.context_length;
  text += fmt::format("\n      largest batch at a context of {}: {}{}\n      largest context at a batch of {}: {}{}\n",
                      grouped(plan.context), grouped(fit.largest_batch),
                      fit.largest_batch == kMostSequences ? " or more" : "", grouped(plan.batch),
                      grouped(fit.largest_context), whole_context ? ", the model's own" : "");
  return text;
}

std::string memory_text(const Plan& plan, const StoragePlan& storage) {
  const MemoryPlan& memory = storage.memory;
  std::string text = fmt::format(
      "    memory{}\n"
      "      weights     {}{}\n"
      "      KV cache    {}\n"
      "      workspace   {}: prefill {}, decode step {}\n"
      "      in all      {}",
      plan.target.gpus > 1 ? " of each GPU" : "", bytes_text(memory.weight_bytes),
      plan.config.tied_embedding ? ", the tied embedding twice: as table and as matrix (the CUDA backend has it once)"
                                 : "",
      bytes_text(memory.kv_bytes), bytes_text(memory.workspace_bytes()), grouped(memory.prefill_workspace),
      grouped(memory.decode_workspace), bytes_text(memory.total_bytes()));
  return text + (storage.fit ? ": " + fit_text(plan, *storage.fit) : "\n");
}

}  // namespace

std::string plan_text(const Plan& plan) {
  std::string text = shape_text(plan.config);
  text += fmt::format("variant {}, batch {}, context {}: {} parameters\n", variant_label(plan.variant), plan.batch,
                      grouped(plan.context), grouped(plan.parameters));
  if (plan.target.hardware) text += hardware_text(*plan.target.hardware);
  text += split_text(plan.target);
  for (const StoragePlan& storage : plan.storages) {
    text += fmt::format("\n{}\n    weights   {}\n", storage_name(storage), bytes_text(storage.weight_bytes));
    text += kv_text(plan, storage.kv);
    text += phase_text(fmt::format("prefill of {} x {} tokens", plan.batch, grouped(plan.context)), storage.prefill,
                       plan.target);
    text += phase_text(
        fmt::format("decode step of {} sequences, newest row over {} positions", plan.batch, grouped(plan.context)),
        storage.decode, plan.target);
    text += memory_text(plan, storage);
  }
  return text + fmt::format(
                    "\nworkspace: activations, logits and the scratch of attention as the CPU kernels hold it on {} "
                    "thread{};\nleft out of the memory: the program, its libraries, RoPE tables\n",
                    plan.target.threads, plan.target.threads == 1 ? "" : "s");
}

}  // namespace kvlab
