// The two attentions of the CPU backend, as tasks: one object runs many steps and counts the dots that it executes.
// Work is counted for query head 0. Results depend neither on the number of threads nor on what else is in the step.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/task.h"
#include "kernels/operations.h"

namespace kvlab::cpu {

/// What both have: arguments, and scratch that attentions of one kind share, since they take turns.
class AttentionCall : public AttentionTask {
 public:
  AttentionCall(Scratch& scratch, int n_threads) : scratch_(scratch), n_threads_(n_threads) {}
  /// What the spans and views point to is read when the task is prepared and run.
  void set_args(const AttentionArgs& args) { args_ = args; }
  AttentionWork work() const override;

 protected:
  void start_counting(int n_lanes);

  AttentionArgs args_;
  Scratch& scratch_;
  int n_threads_;
  std::atomic<std::int64_t> next_item_ = 0;  // lanes take items as they come free
  std::vector<AttentionWork> lane_work_;     // [lanes]
};

/// Scores of a (sequence, head) written out in full [n_queries, kv_len], softmax over whole rows, then the weighted
/// sum: three passes, memory that grows with n_queries * kv_len for each lane.
/// Scratch: [lanes, largest n_queries * kv_len, rounded up].
class NaiveAttention final : public AttentionCall {
 public:
  using AttentionCall::AttentionCall;
  Lanes prepare() override;
  void run(int stage, Share share) override;
  static std::size_t workspace_bytes(const AttentionArgs& args, int n_threads);
};

/// Online softmax over blocks of keys: scores live in one block on the stack. Keys are cut into splits of fixed size;
/// a row's result is the merge of its splits in ascending order, whether one lane walks them (prefill) or several do
/// (few query rows), so that both give the same bits. After FlashAttention (Dao 2023) and Flash-Decoding (Dao 2023).
/// Scratch: [lanes, 2, rows of a block, state], then [rows of split sequences, n_splits, state].
class FusedAttention final : public AttentionCall {
 public:
  using AttentionCall::AttentionCall;
  /// The second stage merges the splits that lanes did apart.
  Lanes prepare() override;
  void run(int stage, Share share) override;
  static std::size_t workspace_bytes(const AttentionArgs& args, int n_threads);

  /// A block of query rows of one KV head against a range of splits.
  struct Item {
    std::int64_t seq;
    std::int64_t kv_head;
    std::int64_t first_row;  // row r stands for query r / group and head r % group of the KV head
    std::int64_t n_rows;
    std::int64_t first_split;
    std::int64_t last_split;
    std::int64_t partials;  // where [n_rows, state] of this item stand among the partial results, in floats, when
                            // another item has the block's other splits; kMergesItself: no other has
  };
  static constexpr std::int64_t kMergesItself = -1;

 private:
  void compute_items(Share share);
  void merge_all();

  std::vector<Item> items_;  // of this step
};

}  // namespace kvlab::cpu
