// A ragged step over a KV cache in any layout, with random Q, K and V, its reference answer and its bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "kernels/reference/operations.h"

namespace kvlab::test {

enum class Layout {
  regions,  // [seq, kv_head, slot, head_dim]: a contiguous cache
  paged,    // [page, kv_head, slot, head_dim], pages in shuffled order
  rows,     // the step's own rows, as without a cache: [row, q | k | v]
};

struct SequenceCase {
  std::int64_t n_queries;
  std::int64_t kv_len;
};

struct StepCase {
  std::vector<SequenceCase> seqs;
  std::int64_t n_heads = 4;
  std::int64_t n_kv_heads = 2;
  std::int64_t head_dim = 16;
  std::int64_t window = 0;
  Layout layout = Layout::paged;
  DType dtype = DType::f32;
  std::int64_t page_size = 16;
  std::uint32_t seed = 1;
};

std::string describe(const StepCase& c);

/// Owns the memory behind the AttentionArgs. Every slot that holds no key is filled with 1e4.
class AttentionStep {
 public:
  explicit AttentionStep(const StepCase& c);

  /// Q of a sequence [n_queries, n_heads * head_dim], K and V [kv_len, n_kv_heads * head_dim]: change them, then
  /// store().
  struct Sequence {
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
  };
  std::vector<Sequence>& sequences() { return sequences_; }
  /// Writes Q, K and V into the step's buffers; K and V are rounded to the cache's dtype, here too.
  void store();

  AttentionArgs args();
  KvView& view() { return view_; }
  float scale() const { return scale_; }
  void set_scale(float scale) { scale_ = scale; }

  /// Runs `kind` on fresh operations; the rows' outputs one after the other, [n_rows, n_heads * head_dim].
  std::vector<float> run(AttentionKind kind, int n_threads = 1);
  const AttentionWork& last_work() const { return work_; }

  /// Runs and compares outputs with float64, work with its formula and the scratch held with what was announced.
  void check(AttentionKind kind, int n_threads = 1, bool exact_scores = false);

 private:
  reference::AttentionShape shape(std::size_t seq) const;
  void lay_out();

  StepCase case_;
  float scale_;
  std::vector<Sequence> sequences_;
  std::vector<SequenceSpan> spans_;
  std::vector<float> q_;    // [n_rows, q_stride]
  std::vector<float> out_;  // [n_rows, out_stride]
  std::vector<float> k32_;  // the cache, when f32
  std::vector<float> v32_;
  std::vector<Bf16> k16_;  // the cache, when bf16
  std::vector<Bf16> v16_;
  std::vector<std::int32_t> table_;
  std::vector<std::int64_t> regions_;
  std::int64_t n_rows_ = 0;
  KvView view_;
  AttentionWork work_;
};

/// Dots of one query head by formula: positions kv_len - n_queries ... kv_len - 1, each min(window, pos + 1).
AttentionWork expected_work(const StepCase& c);

}  // namespace kvlab::test
