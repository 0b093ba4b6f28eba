// Fused attention: blocked online softmax, split over the keys when there are few query rows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/kv_rows.h"

namespace kvlab::cpu {
namespace {

using Item = FusedAttention::Item;

constexpr std::int64_t kKeyBlock = 64;     // keys a block: their K and V rows stay in L1 for all rows of an item
constexpr std::int64_t kSplitKeys = 256;   // keys a split, a multiple of kKeyBlock
constexpr std::int64_t kRowBlock = 16;     // query rows (query, head of the group) an item
constexpr std::int64_t kSplitQueries = 4;  // sequences with at most so many queries spread their splits over threads
constexpr std::int64_t kStateRound = 16;   // floats: states do not share a cache line
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The running softmax of one row: sum over keys of exp(score - max) and of exp(score - max) * V.
/// In memory: [head_dim] values, max, sum.
struct State {
  float* values;
  std::int64_t head_dim;
  float& max() const { return values[head_dim]; }
  float& sum() const { return values[head_dim + 1]; }
  bool empty() const { return sum() == 0.0F && max() == kMinusInfinity; }

  void clear() const {
    std::fill_n(values, head_dim, 0.0F);
    max() = kMinusInfinity;
    sum() = 0.0F;
  }
  /// Moves the reference point of the exponentials up to `new_max`.
  void raise_max(float new_max) const {
    if (new_max == max()) return;
    const float factor = std::exp(max() - new_max);
    multiply(values, head_dim, factor);
    sum() *= factor;
    max() = new_max;
  }
};

std::int64_t state_floats(std::int64_t head_dim) { return ceil_div(head_dim + 2, kStateRound) * kStateRound; }

void merge(const State& part, const State& total) {
  if (part.empty()) return;
  total.raise_max(std::max(total.max(), part.max()));
  const float factor = std::exp(part.max() - total.max());
  for (std::int64_t i = 0; i < total.head_dim; ++i) total.values[i] += factor * part.values[i];
  total.sum() += factor * part.sum();
}

void write_row(const State& total, float* out) {
  std::copy_n(total.values, total.head_dim, out);
  if (!total.empty()) multiply(out, total.head_dim, 1.0F / total.sum());
}

bool splits_over_threads(const SequenceSpan& seq) { return seq.n_queries <= kSplitQueries && seq.kv_len > kSplitKeys; }

/// How a call divides: sizes of the scratch, threads.
struct Plan {
  std::int64_t group;  // query heads a KV head
  std::int64_t state;  // floats a row's state
  std::int64_t n_items = 0;
  std::int64_t partial_states = 0;  // of sequences that split over threads
  std::int64_t work = 0;            // multiply-adds, at most
  int threads = 1;

  Plan(const AttentionArgs& args, int n_threads)
      : group(args.n_heads / args.n_kv_heads), state(state_floats(args.head_dim)) {
    for (const SequenceSpan& seq : args.seqs) {
      const std::int64_t n_splits = splits_over_threads(seq) ? ceil_div(seq.kv_len, kSplitKeys) : 1;
      n_items += args.n_kv_heads * ceil_div(seq.n_queries * group, kRowBlock) * n_splits;
      if (n_splits > 1) partial_states += seq.n_queries * args.n_heads * n_splits;
      work += 2 * seq.n_queries * seq.kv_len * args.n_heads * args.head_dim;
    }
    threads = threads_for(work, n_items, n_threads);
  }
  std::int64_t thread_floats() const { return 2 * kRowBlock * state; }
  std::int64_t scratch_floats() const { return threads * thread_floats() + partial_states * state; }
};

/// Works on one item: a block of rows, its keys block by block.
class ItemPass {
 public:
  ItemPass(const AttentionArgs& args, const Plan& plan, const Item& item)
      : args_(args), plan_(plan), item_(item), span_(args.seqs[static_cast<std::size_t>(item.seq)]) {}

  /// `scratch` [2, kRowBlock, state]; `partials` those of all items.
  AttentionWork run(float* scratch, float* partials) {
    if (item_.partials != FusedAttention::kMergesItself) {
      absorb_split(item_.first_split, partials + item_.partials);
      return work_;
    }
    float* parts = scratch + kRowBlock * plan_.state;
    for (std::int64_t r = 0; r < item_.n_rows; ++r) state(scratch, r).clear();
    for (std::int64_t split = item_.first_split; split < item_.last_split; ++split) {
      absorb_split(split, parts);
      for (std::int64_t r = 0; r < item_.n_rows; ++r) merge(state(parts, r), state(scratch, r));
    }
    for (std::int64_t r = 0; r < item_.n_rows; ++r) write_row(state(scratch, r), out_row(r));
    return work_;
  }

 private:
  State state(float* states, std::int64_t r) const { return {states + r * plan_.state, args_.head_dim}; }
  std::int64_t query(std::int64_t r) const { return (item_.first_row + r) / plan_.group; }
  std::int64_t head_in_group(std::int64_t r) const { return (item_.first_row + r) % plan_.group; }
  std::int64_t column(std::int64_t r) const {
    return (item_.kv_head * plan_.group + head_in_group(r)) * args_.head_dim;
  }
  const float* query_row(std::int64_t r) const {
    return args_.q + (span_.first_row + query(r)) * args_.q_stride + column(r);
  }
  float* out_row(std::int64_t r) const {
    return args_.out + (span_.first_row + query(r)) * args_.out_stride + column(r);
  }
  KeyRange visible(std::int64_t r) const {
    return visible_keys(span_.kv_len - span_.n_queries + query(r), args_.window);
  }

  /// The states of all rows over the keys of one split; `states` [n_rows, state].
  void absorb_split(std::int64_t split, float* states) {
    for (std::int64_t r = 0; r < item_.n_rows; ++r) state(states, r).clear();
    const KeyRange seen{visible(0).first, visible(item_.n_rows - 1).last};
    const std::int64_t last = std::min((split + 1) * kSplitKeys, seen.last);
    for (std::int64_t first = split * kSplitKeys; first < last; first += kKeyBlock) {
      const KeyRange block = intersect({first, std::min(first + kKeyBlock, last)}, seen);
      if (!block.empty()) absorb_block(block, states);
    }
  }

  void absorb_block(KeyRange block, float* states) {
    std::int64_t offsets[kKeyBlock];
    find_rows(args_.kv, item_.seq, item_.kv_head, block, offsets);
    for (std::int64_t r = 0; r < item_.n_rows; ++r) {
      const KeyRange keys = intersect(block, visible(r));
      if (!keys.empty()) absorb_keys(r, keys, offsets + (keys.first - block.first), state(states, r));
    }
  }

  void absorb_keys(std::int64_t r, KeyRange keys, const std::int64_t* offsets, const State& row) {
    float scores[kKeyBlock];
    const std::int64_t n = keys.last - keys.first;
    const std::int64_t executed =
        dot_keys(query_row(r), {args_.kv.k, args_.kv.dtype, offsets, n}, args_.head_dim, args_.scale, scores);
    row.raise_max(largest(scores, n, row.max()));
    row.sum() += exponentiate(scores, n, row.max());
    add_weighted(scores, {args_.kv.v, args_.kv.dtype, offsets, n}, args_.head_dim, row.values);
    if (item_.kv_head != 0 || head_in_group(r) != 0) return;
    work_.dots += executed;
    if (query(r) == span_.n_queries - 1) work_.dots_newest_row += executed;
  }

  const AttentionArgs& args_;
  const Plan& plan_;
  const Item& item_;
  const SequenceSpan& span_;
  AttentionWork work_;
};

/// Lists a sequence's items; those that split over threads get their place in `partials`, which moves on.
void list_items(const AttentionArgs& args, const Plan& plan, std::int64_t seq, std::vector<Item>& items,
                std::int64_t& partials) {
  const SequenceSpan& span = args.seqs[static_cast<std::size_t>(seq)];
  const std::int64_t n_splits = ceil_div(span.kv_len, kSplitKeys);
  const std::int64_t n_rows = span.n_queries * plan.group;
  for (std::int64_t kv_head = 0; kv_head < args.n_kv_heads; ++kv_head) {
    for (std::int64_t row = 0; row < n_rows; row += kRowBlock) {
      const std::int64_t block = std::min(kRowBlock, n_rows - row);
      if (!splits_over_threads(span)) {
        items.push_back({seq, kv_head, row, block, 0, n_splits, FusedAttention::kMergesItself});
        continue;
      }
      for (std::int64_t split = 0; split < n_splits; ++split) {
        items.push_back({seq, kv_head, row, block, split, split + 1, partials});
        partials += block * plan.state;
      }
    }
  }
}

/// Merges the splits of one block, which stand one after the other from `first` on. `total` [state].
void merge_splits(const AttentionArgs& args, const Plan& plan, const Item* first, std::int64_t n_splits,
                  float* partials, float* total) {
  const SequenceSpan& span = args.seqs[static_cast<std::size_t>(first->seq)];
  for (std::int64_t r = 0; r < first->n_rows; ++r) {
    const State row{total, args.head_dim};
    row.clear();
    for (std::int64_t split = 0; split < n_splits; ++split) {
      merge({partials + first[split].partials + r * plan.state, args.head_dim}, row);
    }
    const std::int64_t index = first->first_row + r;
    const std::int64_t head = first->kv_head * plan.group + index % plan.group;
    write_row(row, args.out + (span.first_row + index / plan.group) * args.out_stride + head * args.head_dim);
  }
}

}  // namespace

std::size_t FusedAttention::workspace_bytes(const AttentionArgs& args, int n_threads) {
  return static_cast<std::size_t>(Plan(args, n_threads).scratch_floats()) * sizeof(float);
}

Lanes FusedAttention::prepare() {
  check_view(args_.kv, args_.seqs);
  const Plan plan(args_, n_threads_);
  scratch_.reserve(plan.scratch_floats());
  items_.clear();
  std::int64_t partials = 0;
  for (std::size_t s = 0; s < args_.seqs.size(); ++s) {
    list_items(args_, plan, static_cast<std::int64_t>(s), items_, partials);
  }
  start_counting(plan.threads);
  return {plan.threads, plan.partial_states > 0 ? 1 : 0};
}

void FusedAttention::run(int stage, Share share) {
  if (stage == 0) {
    compute_items(share);
  } else {
    merge_all();
  }
}

void FusedAttention::compute_items(Share share) {
  const Plan plan(args_, n_threads_);
  float* scratch = scratch_.data() + share.lane * plan.thread_floats();
  float* partials = scratch_.data() + plan.threads * plan.thread_floats();
  const auto n_items = static_cast<std::int64_t>(items_.size());
  AttentionWork work;
  for (std::int64_t i = next_item_++; i < n_items; i = next_item_++) {
    work += ItemPass(args_, plan, items_[static_cast<std::size_t>(i)]).run(scratch, partials);
  }
  lane_work_[static_cast<std::size_t>(share.lane)] = work;
}

void FusedAttention::merge_all() {
  const Plan plan(args_, n_threads_);
  float* partials = scratch_.data() + plan.threads * plan.thread_floats();
  for (const Item& item : items_) {
    if (item.partials == kMergesItself || item.first_split != 0) continue;
    const std::int64_t kv_len = args_.seqs[static_cast<std::size_t>(item.seq)].kv_len;
    merge_splits(args_, plan, &item, ceil_div(kv_len, kSplitKeys), partials, scratch_.data());
  }
}

}  // namespace kvlab::cpu
