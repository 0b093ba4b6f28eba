#include "model/recorded_step.h"

#include <iterator>

#include "model/profiler_range.h"

namespace kvlab {

WorkCounters RecordedStep::run(const ForwardContext& context, const StepInput& input, KvCache& cache, bool prune,
                               float* logits) {
  if (graph_ != nullptr && step_->serves(context, input, cache, prune, logits)) {
    step_->take(input);
  } else {
    const ProfilerRange range("record graph");
    graph_.reset();
    context.workspace.begin_step(context.config, std::ssize(input.tokens), std::ssize(input.logit_rows));
    step_ = std::make_unique<ForwardStep>(context, input, cache, prune, logits);
    graph_ = step_->record();
    activation_bytes_ = context.workspace.step_bytes();
    ++n_recorded_;
  }
  {
    const ProfilerRange range("graph replay");
    graph_->run();
  }
  return step_->count(*graph_);
}

}  // namespace kvlab
