// Naive attention: one (sequence, query head) at a time, scores materialised, one pass each for scores, softmax,
// values.
#include <algorithm>
#include <limits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/kv_rows.h"

namespace kvlab::cpu {
namespace {

constexpr std::int64_t kKeyBlock = 64;   // keys whose places are looked up at a time
constexpr std::int64_t kRowRound = 256;  // score rows are a multiple of this, so that decode seldom grows the scratch

std::int64_t row_pitch(const SequenceSpan& seq) { return (seq.kv_len + kRowRound - 1) / kRowRound * kRowRound; }

int threads_of(const AttentionArgs& args, int n_threads) {
  std::int64_t work = 0;
  for (const SequenceSpan& seq : args.seqs) work += seq.n_queries * seq.kv_len;
  const std::int64_t n_items = static_cast<std::int64_t>(args.seqs.size()) * args.n_heads;
  return threads_for(work * args.n_heads * args.head_dim, n_items, n_threads);
}

std::int64_t scores_per_thread(const AttentionArgs& args) {
  std::int64_t most = 0;
  for (const SequenceSpan& seq : args.seqs) most = std::max(most, seq.n_queries * row_pitch(seq));
  return most;
}

/// One query head of one sequence.
class HeadPass {
 public:
  HeadPass(const AttentionArgs& args, std::int64_t seq, std::int64_t head, float* scores)
      : args_(args),
        span_(args.seqs[static_cast<std::size_t>(seq)]),
        seq_(seq),
        head_(head),
        kv_head_(head / (args.n_heads / args.n_kv_heads)),
        scores_(scores) {}

  AttentionWork run() {
    for (std::int64_t i = 0; i < span_.n_queries; ++i) std::fill_n(out_row(i), args_.head_dim, 0.0F);
    for_each_block([this](std::int64_t i, KeyRange keys, const std::int64_t* offsets) {
      const std::int64_t n = dot_keys(query_row(i), rows(args_.kv.k, offsets, keys), args_.head_dim, args_.scale,
                                      score_row(i) + keys.first);
      work_.dots += n;
      if (i == span_.n_queries - 1) work_.dots_newest_row += n;
    });
    for (std::int64_t i = 0; i < span_.n_queries; ++i) normalise(i);
    for_each_block([this](std::int64_t i, KeyRange keys, const std::int64_t* offsets) {
      add_weighted(score_row(i) + keys.first, rows(args_.kv.v, offsets, keys), args_.head_dim, out_row(i));
    });
    return work_;
  }

 private:
  KeyRange visible(std::int64_t i) const { return visible_keys(span_.kv_len - span_.n_queries + i, args_.window); }
  const float* query_row(std::int64_t i) const {
    return args_.q + (span_.first_row + i) * args_.q_stride + head_ * args_.head_dim;
  }
  float* out_row(std::int64_t i) const {
    return args_.out + (span_.first_row + i) * args_.out_stride + head_ * args_.head_dim;
  }
  float* score_row(std::int64_t i) const { return scores_ + i * row_pitch(span_); }
  ScatteredRows rows(const void* base, const std::int64_t* offsets, KeyRange keys) const {
    return {base, args_.kv.dtype, offsets, keys.last - keys.first};
  }

  /// Calls visit(i, keys, offsets of those keys) for every query and the part of every block that it sees.
  template <class Visit>
  void for_each_block(const Visit& visit) {
    std::int64_t offsets[kKeyBlock];
    const std::int64_t first_block = visible(0).first / kKeyBlock;
    for (std::int64_t first = first_block * kKeyBlock; first < span_.kv_len; first += kKeyBlock) {
      const KeyRange block{first, std::min(first + kKeyBlock, span_.kv_len)};
      find_rows(args_.kv, seq_, kv_head_, block, offsets);
      for (std::int64_t i = 0; i < span_.n_queries; ++i) {
        const KeyRange keys = intersect(block, visible(i));
        if (!keys.empty()) visit(i, keys, offsets + (keys.first - block.first));
      }
    }
  }

  void normalise(std::int64_t i) {
    const KeyRange keys = visible(i);
    if (keys.empty()) return;
    float* row = score_row(i) + keys.first;
    const std::int64_t n = keys.last - keys.first;
    const float shift = largest(row, n, -std::numeric_limits<float>::infinity());
    multiply(row, n, 1.0F / exponentiate(row, n, shift));
  }

  const AttentionArgs& args_;
  const SequenceSpan& span_;
  std::int64_t seq_;
  std::int64_t head_;
  std::int64_t kv_head_;
  float* scores_;  // [n_queries, row_pitch]
  AttentionWork work_;
};

}  // namespace

std::size_t NaiveAttention::workspace_bytes(const AttentionArgs& args, int n_threads) {
  return static_cast<std::size_t>(threads_of(args, n_threads) * scores_per_thread(args)) * sizeof(float);
}

Lanes NaiveAttention::prepare() {
  check_view(args_.kv, args_.seqs);
  const int n_lanes = threads_of(args_, n_threads_);
  scratch_.reserve(n_lanes * scores_per_thread(args_));
  start_counting(n_lanes);
  return {n_lanes, 0};
}

void NaiveAttention::run(int /*stage*/, Share share) {
  float* scores = scratch_.data() + share.lane * scores_per_thread(args_);
  const std::int64_t n_items = static_cast<std::int64_t>(args_.seqs.size()) * args_.n_heads;
  AttentionWork work;
  for (std::int64_t item = next_item_++; item < n_items; item = next_item_++) {
    const std::int64_t head = item % args_.n_heads;
    const AttentionWork done = HeadPass(args_, item / args_.n_heads, head, scores).run();
    if (head == 0) work += done;
  }
  lane_work_[static_cast<std::size_t>(share.lane)] = work;
}

}  // namespace kvlab::cpu
