#include "kernels/cuda/backend/device_graph.h"

#include <utility>

namespace kvlab::cuda {

DeviceGraph::DeviceGraph(std::shared_ptr<DeviceContext> context)
    : context_(std::move(context)), mirror_(*context_, HostMirror::Uploads::together), plans_(*context_) {}

void DeviceGraph::add(std::unique_ptr<Work> work, GraphNode node) {
  work_.push_back(std::move(work));
  nodes_.push_back(std::move(node));
}

void DeviceGraph::add_attention(std::unique_ptr<Work> work, GraphNode node, const AttentionArgs& args,
                                bool follows_lengths) {
  add(std::move(work), std::move(node));
  attentions_.push_back({args.seqs, args.window});
  follows_lengths_ = follows_lengths_ || follows_lengths;
}

void DeviceGraph::name_last(std::string_view name, std::int64_t layer) {
  for (; n_named_ < nodes_.size(); ++n_named_) {
    nodes_[n_named_].name = name;
    nodes_[n_named_].layer = layer;
  }
}

void DeviceGraph::run() {
  mirror_.upload();
  for (const std::unique_ptr<Work>& work : work_) work->prepare();
  if (!has_run_) {
    launch_work(context_->stream());
    has_run_ = true;
    if (!follows_lengths_) capture();
    return;
  }
  if (follows_lengths_ || scratch_moves_ != context_->scratch_moves()) capture();
  graph_->launch(context_->stream());
}

void DeviceGraph::launch_work(CUstream_st* stream) const {
  for (const std::unique_ptr<Work>& work : work_) work->launch(stream);
}

void DeviceGraph::capture() {
  graph_ = context_->captured([this](CUstream_st* stream) { launch_work(stream); });
  scratch_moves_ = context_->scratch_moves();
  ++n_captures_;
}

std::vector<AttentionWork> DeviceGraph::attention_work() const {
  std::vector<AttentionWork> work;
  for (const Attention& attention : attentions_) work.push_back(visible_work(attention.seqs, attention.window));
  return work;
}

}  // namespace kvlab::cuda
