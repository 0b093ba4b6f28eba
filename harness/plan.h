// What a model, a context and a batch will take, by arithmetic alone: footprint, FLOPs, bytes, memory, and on a device
// what fits and how long it takes at best.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/hardware.h"
#include "harness/memory_plan.h"
#include "model/model_config.h"
#include "variants/variant.h"

namespace kvlab {

/// Where a plan runs: on paper, or on `gpus` devices of one kind that share the model by tensor parallelism.
struct PlanTarget {
  std::optional<Hardware> hardware;
  std::int64_t gpus = 1;
  int threads = 1;  // of the CPU kernels, whose attention scratch the workspace counts
};

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

/// The least time of a phase on each device.
struct RooflineTime {
  bool bound_by_compute = false;  // otherwise by memory
  double seconds = 0;
  std::optional<double> link_s = 0;  // spent on sums between devices; absent when their links are not known

  double total_s() const { return seconds + link_s.value_or(0); }
  /// "compute", "memory" or "links": the largest of the three.
  std::string bound() const;
};

/// One pass over the whole batch, all devices together.
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

/// What a device of the target's memory holds beside this plan, or instead of it.
struct FitPlan {
  std::int64_t memory_bytes = 0;     // of one device
  std::int64_t left_bytes = 0;       // negative: so many are missing
  std::int64_t largest_batch = 0;    // at this context
  std::int64_t largest_context = 0;  // at this batch

  bool fits() const { return left_bytes >= 0; }
};

/// Everything that depends on storage types.
struct StoragePlan {
  DType weight_dtype = DType::f32;
  DType kv_dtype = DType::f32;
  std::int64_t weight_bytes = 0;  // all parameters
  std::vector<KvPlan> kv;
  PhasePlan prefill;           // `context` tokens a sequence
  PhasePlan decode;            // the step whose row sees `context` positions, its own included
  MemoryPlan memory;           // of one device
  std::optional<FitPlan> fit;  // with hardware
};

struct Plan {
  ModelConfig config;  // the model's own heads
  Variant variant;
  std::int64_t context = 0;
  std::int64_t batch = 0;
  std::int64_t parameters = 0;
  PlanTarget target;
  std::vector<StoragePlan> storages;  // 16 and 32 bits throughout; also the variant's own when its two types differ
};

/// Throws InputError when the context is beyond the model's or the cache's capacity, a number is below 1 or beyond what
/// is planned for, or the model cannot be split over the devices.
Plan make_plan(const ModelConfig& config, const Variant& variant, std::int64_t context, std::int64_t batch,
               const PlanTarget& target = {});

std::string plan_text(const Plan& plan);
nlohmann::ordered_json plan_json(const Plan& plan);

}  // namespace kvlab
