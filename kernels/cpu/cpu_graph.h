// A recorded graph on the CPU: tasks in the order of recording, run inside one parallel region.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/cpu/task.h"
#include "kernels/recorded_graph.h"

namespace kvlab::cpu {

/// Threads wait for each other only where one needs what another computes. Tasks of one lane all run on the first
/// thread, one after the other, and need no waiting among themselves.
class CpuGraph final : public RecordedGraph {
 public:
  explicit CpuGraph(int n_threads) : n_threads_(n_threads) {}

  void add(std::unique_ptr<Task> task, GraphNode node);
  void add_attention(std::unique_ptr<AttentionTask> task, GraphNode node);
  void name_last(std::string_view name, std::int64_t layer);

  void run() override;
  const std::vector<GraphNode>& nodes() const override { return nodes_; }
  std::vector<AttentionWork> attention_work() const override;

  /// Times that threads of the last run waited for each other, beside the end of the region.
  std::int64_t n_barriers() const;

 private:
  /// A stage of a task, as the threads meet it.
  struct Stage {
    Task* task;
    int stage;
    int n_lanes;
    bool waits;  // for everything before it
  };

  void schedule();

  int n_threads_;
  std::vector<GraphNode> nodes_;              // [n_tasks]
  std::vector<std::unique_ptr<Task>> tasks_;  // [n_tasks]
  std::vector<const AttentionTask*> attentions_;
  std::size_t n_named_ = 0;
  std::vector<Lanes> lanes_;   // [n_tasks] of the last run
  std::vector<Stage> stages_;  // for these lanes
};

}  // namespace kvlab::cpu
