#include "model/transformer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/error.h"
#include "model/forward_step.h"
#include "model/packed_weights.h"
#include "model/recorded_step.h"
#include "model/rope.h"
#include "model/workspace.h"

namespace kvlab {
namespace {

std::shared_ptr<const WeightSource> with_heads(std::shared_ptr<const WeightSource> source, const Variant& variant) {
  const std::int64_t own = source->config().n_kv_heads;
  const std::int64_t wanted = resolve_kv_heads(variant, source->config().n_heads, own);
  if (wanted == own) return source;
  return rehead(std::move(source), wanted);
}

}  // namespace

struct Transformer::State {
  State(std::shared_ptr<Operations> operations, std::shared_ptr<const WeightSource> source, const Variant& variant,
        const std::function<void(std::int64_t, std::int64_t)>& progress)
      : ops(std::move(operations)),
        config(source->config()),
        weights(pack_weights(*source, variant, *ops, progress)),
        workspace(*ops) {}

  /// The table of rotations for positions below `n_positions`; doubled when it has to grow.
  const float* rope_table_for(std::int64_t n_positions) {
    if (config.family == Family::gpt2) return nullptr;
    if (n_positions > rope_positions) {
      rope_positions = std::min(std::max<std::int64_t>({n_positions, 2 * rope_positions, 256}),
                                std::max(n_positions, config.context_length));
      rope = PackedVector(*ops, rope_table(config, 0, rope_positions));
    }
    return rope.data();
  }

  std::shared_ptr<Operations> ops;
  ModelConfig config;  // after re-heading
  PackedWeights weights;
  Workspace workspace;
  PackedVector rope;  // [rope_positions, head_dim]
  std::int64_t rope_positions = 0;
  std::int64_t activation_bytes = 0;         // of the last step
  std::int64_t attention_scratch_bytes = 0;  // the same
};

Transformer::Transformer(std::shared_ptr<Operations> ops, std::shared_ptr<const WeightSource> weights,
                         const Variant& variant, const std::function<void(std::int64_t, std::int64_t)>& progress)
    : state_(std::make_unique<State>(std::move(ops), with_heads(std::move(weights), variant), variant, progress)) {}

Transformer::~Transformer() = default;

const ModelConfig& Transformer::config() const { return state_->config; }

KvShape Transformer::kv_shape(DType kv_dtype) const {
  const ModelConfig& config = state_->config;
  return {config.n_layers, config.n_heads, config.n_kv_heads, config.head_dim, kv_dtype};
}

Operations& Transformer::ops() const { return *state_->ops; }

bool Transformer::same_weights(const Variant& a, const Variant& b) {
  return a.heads == b.heads && a.gqa_kv_heads == b.gqa_kv_heads && a.prune == b.prune && a.projection == b.projection &&
         a.weight_dtype == b.weight_dtype;
}

void Transformer::reserve_positions(std::int64_t n) { state_->rope_table_for(n); }

WorkCounters Transformer::step(const StepInput& input, KvCache& cache, bool prune, float* logits,
                               StepObserver* observer, RecordedStep* recorded) {
  state_->ops->begin_step();
  state_->attention_scratch_bytes = 0;
  std::int64_t n_positions = 0;
  for (const SequenceSpan& seq : input.seqs) n_positions = std::max(n_positions, seq.kv_len);
  const ForwardContext context{*state_->ops,
                               state_->config,
                               state_->weights,
                               state_->workspace,
                               state_->rope_table_for(n_positions),
                               state_->attention_scratch_bytes};
  if (recorded != nullptr && observer == nullptr) {
    WorkCounters work = recorded->run(context, input, cache, prune, logits);
    state_->activation_bytes = recorded->activation_bytes();
    return work;
  }
  state_->workspace.begin_step(state_->config, std::ssize(input.tokens), std::ssize(input.logit_rows));
  WorkCounters work = ForwardStep(context, input, cache, prune, logits).run(observer);
  state_->activation_bytes = state_->workspace.step_bytes();
  return work;
}

std::int64_t Transformer::workspace_bytes() const { return state_->activation_bytes + state_->attention_scratch_bytes; }

}  // namespace kvlab
