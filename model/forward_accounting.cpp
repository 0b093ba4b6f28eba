// The half of a step that counts FLOPs and bytes, and tells the observer.
#include <algorithm>
#include <utility>

#include "model/forward_step.h"

namespace kvlab {
namespace {

/// Distinct positions that some row of the span sees.
std::int64_t visible_positions(const SequenceSpan& span, std::int64_t window) {
  if (span.n_queries == 0) return 0;
  const std::int64_t first_query = span.kv_len - span.n_queries;
  return window == 0 ? span.kv_len : span.kv_len - std::max<std::int64_t>(0, first_query - window + 1);
}

}  // namespace

WorkCounters ForwardStep::count(const RecordedGraph& graph) {
  const WorkCounters described = work_;
  const std::vector<AttentionWork> attention = graph.attention_work();
  for (std::size_t i = 0; i < attention.size(); ++i) count_attention(attention_args_[i], attention[i]);
  finish_counting();
  return std::exchange(work_, described);
}

/// A layer without attention executed no products.
void ForwardStep::finish_counting() {
  work_.attention_dots.resize(static_cast<std::size_t>(config_.n_layers), 0);
  work_.attention_dots_newest_row.resize(static_cast<std::size_t>(config_.n_layers), 0);
}

void ForwardStep::count_attention(const AttentionArgs& args, const AttentionWork& attention) {
  context_.attention_scratch_bytes =
      std::max(context_.attention_scratch_bytes,
               static_cast<std::int64_t>(ops_.attention_workspace_bytes(input_.attention, args)));
  const std::int64_t flops = 4 * q_width_ * attention.dots;
  work_.attention_dots.push_back(attention.dots);
  work_.attention_dots_newest_row.push_back(attention.dots_newest_row);
  work_.attention_flops += flops;
  noted_flops_ += flops;
  if (!cache_.keeps_tokens()) return;
  const std::int64_t position_bytes = 2 * kv_width_ * static_cast<std::int64_t>(dtype_bytes(args.kv.dtype));
  for (const SequenceSpan& span : args.seqs) {
    const std::int64_t read = visible_positions(span, config_.sliding_window) * position_bytes;
    work_.kv_read_bytes += read;
    noted_kv_read_bytes_ += read;
  }
}

void ForwardStep::count_product(const PackedMatrix& weight, const PackedVector& bias, std::int64_t n) {
  use(bias);
  const std::int64_t flops = 2 * n * weight.n_out() * weight.n_in();
  const std::int64_t bytes = weight.n_out() * weight.n_in() * static_cast<std::int64_t>(dtype_bytes(weight.dtype()));
  work_.gemm_flops += flops;
  work_.weight_bytes += bytes;
  noted_flops_ += flops;
  noted_weight_bytes_ += bytes;
}

void ForwardStep::use(const PackedVector& vector) {
  const std::int64_t bytes = vector.size() * static_cast<std::int64_t>(weight_element_bytes_);
  work_.weight_bytes += bytes;
  noted_weight_bytes_ += bytes;
}

/// Reports a tensor with the FLOPs and bytes counted since the last such report.
void ForwardStep::note(const ProfilerRange& operation, std::string_view tensor,
                       std::initializer_list<std::int64_t> shape) {
  if (recording_) ops_.name_recorded(operation.name(), layer_);
  report({operation.name(), layer_, tensor, std::vector<std::int64_t>(shape), noted_flops_, noted_weight_bytes_,
          noted_kv_read_bytes_, noted_kv_write_bytes_});
  noted_flops_ = 0;
  noted_weight_bytes_ = 0;
  noted_kv_read_bytes_ = 0;
  noted_kv_write_bytes_ = 0;
}

/// Reports a tensor that is a part of another, which carries the counts.
void ForwardStep::note_part(const ProfilerRange& operation, std::string_view tensor,
                            std::initializer_list<std::int64_t> shape) {
  report({operation.name(), layer_, tensor, std::vector<std::int64_t>(shape), 0, 0, 0, 0});
}

void ForwardStep::report(const OperationRecord& record) const {
  if (observer_ != nullptr) observer_->operation(record);
}

}  // namespace kvlab
