// The one table of formulas (SPEC S22): what each operation of a pass multiplies, reads and writes, as exact integers.
// accounting.h adds the rows up to phases and runs, and states the conventions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/model_config.h"
#include "model/work_counters.h"
#include "variants/variant.h"

namespace kvlab {

/// In the order in which a pass issues them. Norms, RoPE, softmax and activation functions have no FLOPs by convention;
/// RoPE and the activation functions have no weights either and are left out.
enum class Operation {
  embedding,
  attention_norm,
  q_projection,   // with its bias and the norm of Q's heads
  kv_projection,  // the same for K and V
  append,
  attention,
  output_projection,
  mlp_norm,
  mlp_up,  // gate and up in the llama family
  mlp_down,
  final_norm,
  lm_head,
};

std::string_view operation_name(Operation operation);

/// Sequences of one pass that are alike.
struct SequenceRows {
  std::int64_t count;   // of such sequences
  std::int64_t rows;    // new rows, each
  std::int64_t kv_len;  // keys that its last row may see, itself included
  bool wants_logits;    // of its last row; with logits=all every row has logits anyway
};

struct OperationWork {
  Operation operation;
  std::int64_t layer = -1;  // -1: outside the layers
  std::int64_t rows = 0;    // of all sequences, that it works on
  std::int64_t flops = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t kv_read_bytes = 0;
  std::int64_t kv_write_bytes = 0;
  std::int64_t dots = 0;             // of attention: one query head
  std::int64_t dots_newest_row = 0;  // those of each sequence's last row

  std::int64_t bytes() const { return weight_bytes + kv_read_bytes + kv_write_bytes; }
};

/// The operations of one pass over ragged sequences, in order; those with no rows are there, with zeros. `config` has
/// the heads that run. Throws InputError where a count does not fit 64 bits.
std::vector<OperationWork> pass_operations(const ModelConfig& config, const Variant& variant,
                                           std::span<const SequenceRows> sequences);

/// Adds a pass to `sum`.
void add_pass(WorkCounters& sum, std::span<const OperationWork> operations);

}  // namespace kvlab
