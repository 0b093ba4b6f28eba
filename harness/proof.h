// The proof that a variant computes the model: its teacher-forced logits against the float64 reference's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/model_session.h"
#include "harness/tolerance.h"
#include "model/reference_rounding.h"

namespace kvlab {

struct ProofOutcome {
  Difference difference;  // row: the position in the sequence
  double tolerance = 0;
  std::string derivation;       // of the tolerance, a few words
  std::int64_t ties = 0;        // positions where the greedy choice differs, but within the tolerance of a tie
  std::int64_t mismatches = 0;  // positions where it differs by more
  bool passed() const { return difference.worst <= tolerance && mismatches == 0; }
};

class Proof {
 public:
  /// `ids`: the first `prompt_tokens` go through the prefill, each of the others through a decode step.
  Proof(ModelSession& session, std::vector<std::int32_t> ids, std::int64_t prompt_tokens)
      : session_(session), ids_(std::move(ids)), prompt_tokens_(prompt_tokens) {}

  ProofOutcome prove(const Variant& variant);

 private:
  /// Float64 logits of every position. Variants that hold the same numbers share one: the weight dtype and, where KV
  /// heads were pooled, their number matter, and where the backend rounds.
  struct Reference {
    DType weight_dtype;
    std::int64_t pooled_kv_heads;  // 0: outputs are the model's own
    ReferenceRounding rounding;
    std::vector<double> logits;  // [ids, vocab_size]
    double largest_logit = 0;
    double plain_error = 0;  // worst logit difference of one f32 pass over all ids, no cache, naive
    double noise = 0;        // where the backend rounds: the worst that the noise of f32 sums does to a logit

    bool rounds() const { return rounding != ReferenceRounding(); }
  };
  struct NaiveError {
    Variant variant;
    double worst;
  };

  const Reference& reference(const Variant& variant);
  void measure_noise(const WeightSource& weights, Reference& made);
  double plain_error(const Variant& variant, const Reference& expected);
  void set_tolerance(const Variant& variant, const Reference& expected, ProofOutcome& outcome);
  /// Runs the variant over the ids and fills difference, ties and mismatches.
  void compare(const Variant& variant, const Reference& expected, ProofOutcome& outcome);
  void compare_position(std::span<const float> logits, std::int64_t position, const Reference& expected,
                        ProofOutcome& outcome) const;

  ModelSession& session_;
  std::vector<std::int32_t> ids_;
  std::int64_t prompt_tokens_;
  std::vector<std::unique_ptr<Reference>> references_;
  std::vector<NaiveError> naive_errors_;
};

}  // namespace kvlab
