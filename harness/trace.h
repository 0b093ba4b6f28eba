// A prefill and one decode step, operation by operation, as a decoder really ran them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "model/step_observer.h"

namespace kvlab {

/// A record that outlives the step.
struct TracedOperation {
  std::string name;
  std::int64_t layer = -1;  // -1: outside the layers
  std::string tensor;
  std::vector<std::int64_t> shape;
  std::int64_t flops = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t kv_read_bytes = 0;
  std::int64_t kv_write_bytes = 0;

  std::int64_t bytes() const { return weight_bytes + kv_read_bytes + kv_write_bytes; }
  bool operator==(const TracedOperation&) const = default;
};

struct TracedPhase {
  std::string phase;                 // "prefill" | "decode"
  std::vector<std::int32_t> tokens;  // what was brought
  std::vector<TracedOperation> operations;
  std::int64_t n_logit_rows = 0;          // computed by the last pass; the last of them is used
  std::optional<std::int32_t> chosen_id;  // greedy; absent where only shapes went through

  /// Sums over the operations; name, layer, tensor and shape are empty.
  TracedOperation total() const;
};

/// Runs sequence 0 of an empty decoder: the prompt, then one step with the greedy token.
std::vector<TracedPhase> trace_decoder(Decoder& decoder, const std::vector<std::int32_t>& prompt_ids);

/// The same without weights (shape_backend.h): shapes and counts alone; the step brings the prompt's first id.
/// `config` is the model's own.
std::vector<TracedPhase> trace_shapes(const ModelConfig& config, const Variant& variant,
                                      const std::vector<std::int32_t>& prompt_ids);

std::string trace_table(const std::vector<TracedPhase>& phases);
nlohmann::ordered_json trace_json(const std::vector<TracedPhase>& phases);

}  // namespace kvlab
