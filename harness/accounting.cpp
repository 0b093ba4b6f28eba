// Which passes a workload takes, and their sums. What an operation of a pass costs: operation_table.h.
#include "harness/accounting.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/exact.h"
#include "variants/cache/kv_cache.h"

namespace kvlab {
namespace {

void check_workload(const Workload& workload) {
  if (workload.batch < 1 || workload.prompt_tokens < 1 || workload.depth < 0 || workload.gen_tokens < 0) {
    throw InputError(
        fmt::format("a workload needs batch >= 1, prompt_tokens >= 1, depth >= 0 and gen_tokens >= 0; got batch {}, "
                    "prompt_tokens {}, depth {}, gen_tokens {}",
                    workload.batch, workload.prompt_tokens, workload.depth, workload.gen_tokens));
  }
}

PromptGroup prompt_of(const Workload& workload) { return {workload.batch, workload.depth, workload.prompt_tokens}; }

/// Adds decode step `i` to `sum`; `shape` has the heads that run.
void add_step(WorkCounters& sum, const ModelConfig& shape, const Variant& variant, const Workload& workload,
              std::int64_t i) {
  const PromptGroup prompt = prompt_of(workload);
  add_pass(sum, pass_operations(shape, variant, decode_pass(variant, {&prompt, 1}, i)));
}

}  // namespace

ModelConfig reheaded_config(const ModelConfig& config, const Variant& variant) {
  ModelConfig result = config;
  result.n_kv_heads = resolve_kv_heads(variant, config.n_heads, config.n_kv_heads);
  return result;
}

std::vector<std::vector<SequenceRows>> prefill_passes(const Variant& variant, std::span<const PromptGroup> prompts) {
  std::int64_t longest = 0;
  for (const PromptGroup& prompt : prompts) longest = std::max(longest, prompt.tokens);
  const bool cached = variant.cache != CacheKind::none;
  const std::int64_t chunk = cached && variant.prefill_chunk > 0 ? std::min(variant.prefill_chunk, longest) : longest;
  std::vector<std::vector<SequenceRows>> passes;
  for (std::int64_t done = 0; done < longest; done += chunk) {
    std::vector<SequenceRows>& pass = passes.emplace_back();
    for (const PromptGroup& prompt : prompts) {
      if (done >= prompt.tokens) continue;
      const std::int64_t rows = std::min(chunk, prompt.tokens - done);
      const std::int64_t kv_len = (Exact(prompt.depth) + done + rows).value();
      pass.push_back({prompt.count, cached ? rows : kv_len, kv_len, done + rows == prompt.tokens});
    }
  }
  return passes;
}

std::vector<SequenceRows> decode_pass(const Variant& variant, std::span<const PromptGroup> prompts, std::int64_t i) {
  std::vector<SequenceRows> pass;
  for (const PromptGroup& prompt : prompts) {
    const std::int64_t kv_len = (Exact(prompt.depth) + prompt.tokens + i).value();
    pass.push_back({prompt.count, variant.cache == CacheKind::none ? kv_len : 1, kv_len, true});
  }
  return pass;
}

WorkCounters prefill_work(const ModelConfig& config, const Variant& variant, const Workload& workload) {
  check_workload(workload);
  const ModelConfig shape = reheaded_config(config, variant);
  const PromptGroup prompt = prompt_of(workload);
  WorkCounters work;
  for (const auto& pass : prefill_passes(variant, {&prompt, 1})) {
    add_pass(work, pass_operations(shape, variant, pass));
  }
  return work;
}

WorkCounters decode_step_work(const ModelConfig& config, const Variant& variant, const Workload& workload,
                              std::int64_t i) {
  check_workload(workload);
  WorkCounters work;
  add_step(work, reheaded_config(config, variant), variant, workload, i);
  return work;
}

WorkCounters decode_work(const ModelConfig& config, const Variant& variant, const Workload& workload) {
  WorkCounters work;
  work.attention_dots.resize(static_cast<std::size_t>(config.n_layers));
  work.attention_dots_newest_row.resize(static_cast<std::size_t>(config.n_layers));
  if (workload.gen_tokens < 2) return work;
  check_workload(workload);
  const ModelConfig shape = reheaded_config(config, variant);
  for (std::int64_t i = 1; i < workload.gen_tokens; ++i) add_step(work, shape, variant, workload, i);
  return work;
}

std::int64_t stored_weight_bytes(const ModelConfig& config, const Variant& variant) {
  const std::int64_t parameters = parameter_count(reheaded_config(config, variant));
  return (Exact(parameters) * static_cast<std::int64_t>(dtype_bytes(variant.weight_dtype))).value();
}

std::int64_t kv_reserved_bytes(const ModelConfig& config, const Variant& variant, std::int64_t batch,
                               std::int64_t tokens) {
  const ModelConfig shape = reheaded_config(config, variant);
  const std::int64_t token_bytes = kv_bytes_per_token(
      variant.cache, {shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, variant.kv_dtype});
  const std::int64_t page = variant.cache == CacheKind::paged ? variant.page_size : 1;
  const Exact slots = Exact(tokens / page + (tokens % page == 0 ? 0 : 1)) * page;
  return (Exact(token_bytes) * slots * batch).value();
}

}  // namespace kvlab
