// Whether a case computes the right thing, before it is timed: against the reference variant (no cache, naive, the
// model's heads, nothing pruned, the same weight dtype, KV f32).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/model_session.h"
#include "harness/round.h"

namespace kvlab {

/// What a variant is compared with. A pooled re-heading changes outputs: its reference has the pooled heads. `config`
/// is the model's own.
Variant reference_variant(const Variant& variant, const ModelConfig& config);
/// The same for a case: drawn K and V (KvFill) cannot be recomputed, so their reference keeps them in regions.
Variant reference_variant(const Case& spec, const ModelConfig& config);

/// The case that another one's output is compared with. Where the scores of all its rows are too large it takes the
/// prompt in chunks.
Case reference_case(const Case& spec, const ModelConfig& config);

/// Scores that naive attention holds when every row of a workload comes in one pass: [rows, keys] f32 for each thread.
/// Rows: all positions, but for those whose K and V are drawn.
std::int64_t whole_scores_bytes(const Workload& workload, int threads);

/// Above it the reference takes the prompt in chunks, which needs a cache.
constexpr std::int64_t kMostWholeScoresBytes = std::int64_t{1} << 30;

class OutputCheck {
 public:
  explicit OutputCheck(ModelSession& session) : session_(session) {}

  /// Runs the case once over its exact shapes and path, which also warms it up, and compares. Sets status, reason and
  /// warnings of `result`; returns the run. All-f32 cases must give the reference's tokens (a tie within rounding is a
  /// warning); other storage types must give its teacher-forced logits within twice the error of the naive variant with
  /// the same storage. `options` are those of the case's own run.
  Round check(CaseResult& result, const WorkloadTokens& tokens, RoundOptions options = {});

 private:
  struct Reference {
    Case spec;                  // gen_tokens: as many as are checked
    Round round;                // its tokens: [batch][checked]
    std::vector<float> logits;  // [n_kept, vocab_size] of sequence 0
    std::int64_t n_kept = 0;
    double largest_logit = 0;
    std::int64_t split_bytes = 0;  // where each sequence went alone: what all together would have taken; else 0
  };
  struct Entry {
    Case spec;
    Reference reference;
  };

  const Reference& reference(const Case& spec, const WorkloadTokens& tokens);
  Reference make_reference(const Case& spec, const WorkloadTokens& tokens);
  /// The reference's tokens, sequence by sequence.
  Round split_round(const Case& spec, const WorkloadTokens& tokens, const RoundOptions& options);
  void note_reference(CaseResult& result, const Reference& reference) const;
  /// Worst |logit difference| of a variant fed with the reference's tokens.
  double forced_difference(Case spec, const WorkloadTokens& tokens, const Reference& reference);
  void compare_tokens(CaseResult& result, const Round& round, const WorkloadTokens& tokens, const Reference& reference);
  void compare_logits(CaseResult& result, const WorkloadTokens& tokens, const Reference& reference);
  /// How much the reference prefers its own choice over `id` after `length` generated tokens of sequence `seq`.
  double preference(const Reference& reference, const WorkloadTokens& tokens, std::size_t seq, std::size_t length,
                    std::int32_t id);
  double tolerance(const Reference& reference) const;

  ModelSession& session_;
  std::vector<Entry> references_;
  std::vector<std::pair<Case, double>> naive_differences_;
};

}  // namespace kvlab
