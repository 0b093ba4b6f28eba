#include "kernels/cpu/cpu_graph.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "kernels/cpu/threads.h"

namespace kvlab::cpu {

void CpuGraph::add(std::unique_ptr<Task> task, GraphNode node) {
  tasks_.push_back(std::move(task));
  nodes_.push_back(std::move(node));
}

void CpuGraph::add_attention(std::unique_ptr<AttentionTask> task, GraphNode node) {
  attentions_.push_back(task.get());
  add(std::move(task), std::move(node));
}

void CpuGraph::name_last(std::string_view name, std::int64_t layer) {
  for (; n_named_ < nodes_.size(); ++n_named_) {
    nodes_[n_named_].name = name;
    nodes_[n_named_].layer = layer;
  }
}

/// Decides where threads wait. Between two waits, no task may touch what a task with other lanes writes: a pair of
/// one-lane tasks is ordered by their common thread, any other pair that conflicts needs a wait between.
void CpuGraph::schedule() {
  struct Running {
    const GraphNode* node;
    int n_lanes;
  };
  stages_.clear();
  std::vector<Running> running;  // since the last wait
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Lanes lanes = lanes_[i];
    const bool waits = std::any_of(running.begin(), running.end(), [&](const Running& earlier) {
      return std::max(earlier.n_lanes, lanes.first) > 1 && conflict(*earlier.node, nodes_[i]);
    });
    if (waits) running.clear();
    stages_.push_back({tasks_[i].get(), 0, lanes.first, waits});
    running.push_back({&nodes_[i], lanes.first});
    if (lanes.second == 0) continue;
    const bool second_waits = std::max(lanes.first, lanes.second) > 1;
    if (second_waits) running = {{&nodes_[i], lanes.second}};
    stages_.push_back({tasks_[i].get(), 1, lanes.second, second_waits});
  }
}

void CpuGraph::run() {
  std::vector<Lanes> lanes;
  lanes.reserve(tasks_.size());
  for (const std::unique_ptr<Task>& task : tasks_) lanes.push_back(task->prepare());
  if (lanes != lanes_) {
    lanes_ = std::move(lanes);
    schedule();
  }
  const bool serial = std::all_of(stages_.begin(), stages_.end(), [](const Stage& s) { return s.n_lanes <= 1; });
  if (serial) {
    omp_set_num_threads(1);  // oneDNN would open a region otherwise
    for (const Stage& stage : stages_) stage.task->run(stage.stage, {});
    omp_set_num_threads(n_threads_);
    return;
  }
#pragma omp parallel num_threads(n_threads_)
  for (const Stage& stage : stages_) {
    if (stage.waits) {
      // Every thread walks the same list and meets the same barriers. A barrier completes each store before it, so that
      // what any lane wrote is seen by all lanes of later stages.
#pragma omp barrier
    }
    for_own_lanes(stage.n_lanes, [&](Share share) { stage.task->run(stage.stage, share); });
  }
}

std::vector<AttentionWork> CpuGraph::attention_work() const {
  std::vector<AttentionWork> work;
  for (const AttentionTask* attention : attentions_) work.push_back(attention->work());
  return work;
}

std::int64_t CpuGraph::n_barriers() const {
  return std::count_if(stages_.begin(), stages_.end(), [](const Stage& stage) { return stage.waits; });
}

}  // namespace kvlab::cpu
