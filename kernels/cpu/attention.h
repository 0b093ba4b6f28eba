// The two attentions of the CPU backend. Each keeps its scratch between calls and counts the dots it executes.
// Work is counted for query head 0. Results depend neither on the number of threads nor on what else is in the step.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cpu/memory.h"
#include "kernels/operations.h"

namespace kvlab::cpu {

/// Scores of a (sequence, head) written out in full [n_queries, kv_len], softmax over whole rows, then the weighted
/// sum: three passes, memory that grows with n_queries * kv_len for each thread.
class NaiveAttention {
 public:
  AttentionWork run(const AttentionArgs& args, int n_threads);
  static std::size_t workspace_bytes(const AttentionArgs& args, int n_threads);
  std::size_t held_bytes() const { return scratch_.bytes(); }

 private:
  Scratch scratch_;  // [threads, largest n_queries * kv_len, rounded up]
};

/// Online softmax over blocks of keys: scores live in one block on the stack. Keys are cut into splits of fixed size;
/// a row's result is the merge of its splits in ascending order, whether one thread walks them (prefill) or several do
/// (few query rows), so that both give the same bits. After FlashAttention (Dao 2023) and Flash-Decoding (Dao 2023).
class FusedAttention {
 public:
  AttentionWork run(const AttentionArgs& args, int n_threads);
  static std::size_t workspace_bytes(const AttentionArgs& args, int n_threads);
  std::size_t held_bytes() const { return scratch_.bytes(); }

  /// A block of query rows of one KV head against a range of splits.
  struct Item {
    std::int64_t seq;
    std::int64_t kv_head;
    std::int64_t first_row;  // row r stands for query r / group and head r % group of the KV head
    std::int64_t n_rows;
    std::int64_t first_split;
    std::int64_t last_split;
    float* partials;  // [n_rows, state] to fill when another item has the block's other splits; null: this item merges
  };

 private:
  Scratch scratch_;          // [threads, 2, rows of a block, state], then [rows of split sequences, n_splits, state]
  std::vector<Item> items_;  // of the last call
};

}  // namespace kvlab::cpu
