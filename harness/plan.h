// What a model, a context and a batch will take, by arithmetic alone: footprint, FLOPs, bytes, roofline.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/hardware.h"
#include "model/model_config.h"
#include "variants/variant.h"

namespace kvlab {

/// KV memory under one head layout, pages rounded up where the cache is paged.
struct KvPlan {
  std::string heads;  // "model", "mha", "mqa", "gqa:G"
  std::int64_t n_kv_heads = 0;
  std::int64_t head_layer_bytes = 0;    // one token, one KV head, one layer
  std::int64_t layer_bytes = 0;         // one token, one layer
  std::int64_t token_bytes = 0;         // one token
  std::int64_t sequence_bytes = 0;      // `context` tokens
  std::int64_t batch_bytes = 0;         // `batch` such sequences
  std::int64_t full_context_bytes = 0;  // one sequence of the model's whole context
};

struct RooflineTime {
  bool bound_by_compute = false;  // otherwise by memory
  double seconds = 0;
};

/// One pass over the whole batch.
struct PhasePlan {
  std::int64_t gemm_flops = 0;
  std::int64_t attention_flops = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t kv_read_bytes = 0;
  std::int64_t kv_write_bytes = 0;
  std::optional<RooflineTime> time;  // with hardware

  std::int64_t flops() const { return gemm_flops + attention_flops; }
  std::int64_t bytes() const { return weight_bytes + kv_read_bytes + kv_write_bytes; }
  double flops_per_byte() const { return static_cast<double>(flops()) / static_cast<double>(bytes()); }
};

/// Everything that depends on storage types.
struct StoragePlan {
  DType weight_dtype = DType::f32;
  DType kv_dtype = DType::f32;
  std::int64_t weight_bytes = 0;  // all parameters
  std::vector<KvPlan> kv;
  PhasePlan prefill;  // `context` tokens a sequence
  PhasePlan decode;   // the step whose row sees `context` positions, its own included
};

struct Plan {
  ModelConfig config;  // the model's own heads
  Variant variant;
  std::int64_t context = 0;
  std::int64_t batch = 0;
  std::int64_t parameters = 0;
  std::optional<Hardware> hardware;
  std::vector<StoragePlan> storages;  // 16 and 32 bits throughout; also the variant's own when its two types differ
};

/// Throws InputError when the context is beyond the model's, or a number is below 1.
Plan make_plan(const ModelConfig& config, const Variant& variant, std::int64_t context, std::int64_t batch,
               const std::optional<Hardware>& hardware);

std::string plan_text(const Plan& plan);
nlohmann::ordered_json plan_json(const Plan& plan);

}  // namespace kvlab
