// Counter by counter, so that a mistake is named.
#include "harness/work_difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "harness/accounting.h"

namespace kvlab {

namespace {

/// Names the first counter that differs from its formula; "" when all agree.
std::string phase_difference(const std::string& phase, const WorkCounters& counted, const WorkCounters& formula) {
  const std::vector<std::pair<const char*, std::int64_t WorkCounters::*>> scalars = {
      {"rows", &WorkCounters::rows},
      {"kv_projection_rows", &WorkCounters::kv_projection_rows},
      {"gemm_flops", &WorkCounters::gemm_flops},
      {"attention_flops", &WorkCounters::attention_flops},
      {"weight_bytes", &WorkCounters::weight_bytes},
      {"kv_read_bytes", &WorkCounters::kv_read_bytes},
      {"kv_write_bytes", &WorkCounters::kv_write_bytes}};
  for (const auto& [name, member] : scalars) {
    if (counted.*member == formula.*member) continue;
    return fmt::format("{} {}: counted {}, the formula gives {}", phase, name, counted.*member, formula.*member);
  }
  if (counted.attention_dots != formula.attention_dots) {
    return fmt::format("{} attention_dots: counted {}, the formula gives {}", phase, counted.attention_dots,
                       formula.attention_dots);
  }
  if (counted.attention_dots_newest_row != formula.attention_dots_newest_row) {
    return fmt::format("{} attention_dots_newest_row: counted {}, the formula gives {}", phase,
                       counted.attention_dots_newest_row, formula.attention_dots_newest_row);
  }
  return "";
}

}  // namespace

std::string work_difference(const Case& spec, const ModelConfig& config, const WorkCounters& prefill,
                            const WorkCounters& decode) {
  std::string text = phase_difference("prefill", prefill, prefill_work(config, spec.variant, spec.workload));
  if (text.empty() && spec.workload.gen_tokens > 1) {
    text = phase_difference("decode", decode, decode_work(config, spec.variant, spec.workload));
  }
  return text;
}

}  // namespace kvlab
