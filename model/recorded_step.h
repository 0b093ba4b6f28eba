// The recorded step of one decoder: kept from step to step, recorded anew when the batch's shape or a buffer changed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/forward_step.h"

namespace kvlab {

class RecordedStep {
 public:
  /// Runs a step by the graph that is there, or records it first. Arguments as of Transformer::step.
  WorkCounters run(const ForwardContext& context, const StepInput& input, KvCache& cache, bool prune, float* logits);

  /// Of the last step; null before the first.
  const RecordedGraph* graph() const { return graph_.get(); }
  /// Steps that were recorded, among those that ran.
  std::int64_t n_recorded() const { return n_recorded_; }
  /// Bytes of activations that the graph's step uses.
  std::int64_t activation_bytes() const { return activation_bytes_; }

 private:
  std::unique_ptr<ForwardStep> step_;
  std::unique_ptr<RecordedGraph> graph_;
  std::int64_t n_recorded_ = 0;
  std::int64_t activation_bytes_ = 0;
};

}  // namespace kvlab
