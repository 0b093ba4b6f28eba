// The forward pass, written once against the operation table: a flat list of tokens through every layer, for prefill,
// chunked prefill, decode and ragged batches alike.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operations.h"
#include "model/model_config.h"
#include "model/step_observer.h"
#include "model/weight_source.h"
#include "model/work_counters.h"
#include "variants/cache/kv_cache.h"
#include "variants/variant.h"

namespace kvlab {

class RecordedStep;

struct StepInput {
  std::span<const std::int32_t> tokens;     // [n_tokens]
  std::span<const std::int32_t> positions;  // [n_tokens]
  std::span<const SequenceSpan> seqs;       // [n_seqs], rows back to back
  std::span<const std::int64_t> seq_ids;    // [n_seqs] the cache's numbers
  std::span<const std::int64_t>
      logit_rows;  // rows whose logits are wanted, ascending; empty: none (an inner prefill chunk)
  AttentionKind attention = AttentionKind::fused;
  const std::int32_t* chosen = nullptr;  // [n_tokens] in a buffer: takes the place of what `tokens` hold
};

class Transformer {
 public:
  /// Packs the weights that `variant` asks for (heads, projection, prune, weight dtype). `progress` is called with
  /// (layers done, layers in all).
  Transformer(std::shared_ptr<Operations> ops, std::shared_ptr<const WeightSource> weights, const Variant& variant,
              const std::function<void(std::int64_t, std::int64_t)>& progress = {});
  ~Transformer();

  /// After re-heading.
  const ModelConfig& config() const;
  KvShape kv_shape(DType kv_dtype) const;
  Operations& ops() const;
  /// Whether two variants can share one set of packed weights.
  static bool same_weights(const Variant& a, const Variant& b);

  /// Makes ready for positions below `n`, so that no step has to.
  void reserve_positions(std::int64_t n);

  /// Runs one step and writes logits [logit_rows.size(), vocab_size], memory of a buffer. The cache has room (see
  /// KvCache::reserve). `prune`: the last layer computes only what logit_rows need, K and V apart. With `recorded` the
  /// step is described first and run as one graph, which later steps of that shape run again; an observer hears
  /// operations one by one, so a step that is observed is not recorded.
  WorkCounters step(const StepInput& input, KvCache& cache, bool prune, float* logits, StepObserver* observer = nullptr,
                    RecordedStep* recorded = nullptr);

  /// Bytes of activations and scratch that the last step used (SPEC S25).
  std::int64_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlab
