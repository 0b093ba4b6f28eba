// A recorded step on the device: its operations in order, captured into one graph that is launched again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/cuda/backend/decode_plans.h"
#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/backend/host_mirror.h"
#include "kernels/recorded_graph.h"

namespace kvlab::cuda {

/// An operation with its arguments.
class Work {
 public:
  virtual ~Work() = default;
  /// Sees that its scratch is large enough; nothing may be allocated while a graph is captured.
  virtual void prepare() {}
  virtual void launch(CUstream_st* stream) = 0;
};

/// Every run uploads the host arrays together and launches the graph. The first run launches operation by operation,
/// so that whatever a kernel or a library loads is loaded, and captures the graph after that. It is captured anew when
/// scratch had to move, and for every later run when an operation's launches follow the lengths of the sequences.
class DeviceGraph final : public RecordedGraph {
 public:
  explicit DeviceGraph(std::shared_ptr<DeviceContext> context);

  /// Of the arrays that its operations read.
  HostMirror& mirror() { return mirror_; }
  /// Of its attentions; the first one of a plan makes it in every run.
  DecodePlans& plans() { return plans_; }
  void add(std::unique_ptr<Work> work, GraphNode node);
  void add_attention(std::unique_ptr<Work> work, GraphNode node, const AttentionArgs& args, bool follows_lengths);
  void name_last(std::string_view name, std::int64_t layer);

  void run() override;
  const std::vector<GraphNode>& nodes() const override { return nodes_; }
  std::vector<AttentionWork> attention_work() const override;

  /// Times that the work was captured.
  std::int64_t n_captures() const { return n_captures_; }

 private:
  struct Attention {
    std::span<const SequenceSpan> seqs;
    std::int64_t window;
  };

  void launch_work(CUstream_st* stream) const;
  void capture();

  std::shared_ptr<DeviceContext> context_;
  HostMirror mirror_;
  DecodePlans plans_;
  std::vector<std::unique_ptr<Work>> work_;  // [n_operations]
  std::vector<GraphNode> nodes_;             // [n_operations]
  std::vector<Attention> attentions_;
  std::size_t n_named_ = 0;
  bool follows_lengths_ = false;
  bool has_run_ = false;
  std::unique_ptr<Graph> graph_;
  std::int64_t scratch_moves_ = 0;  // of the context, when the graph was captured
  std::int64_t n_captures_ = 0;
};

}  // namespace kvlab::cuda
