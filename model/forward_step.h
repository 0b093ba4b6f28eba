// One step of the transformer: walks the layers, issues every operation, counts it and tells the observer. A recorded
// step stays alive beside its graph: it holds what the graph reads and counts what a run did.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/packed_weights.h"
#include "model/profiler_range.h"
#include "model/transformer.h"
#include "model/workspace.h"

namespace kvlab {

/// What lives as long as the transformer.
struct ForwardContext {
  Operations& ops;
  const ModelConfig& config;
  const PackedWeights& weights;
  Workspace& workspace;
  const float* rope_table;                // [n_positions, head_dim]; null for gpt2
  std::int64_t& attention_scratch_bytes;  // the most that attention held in this step
};

class ForwardStep {
 public:
  /// logits [n_logit_rows, vocab_size]. Of `input` a copy is kept.
  ForwardStep(const ForwardContext& context, const StepInput& input, KvCache& cache, bool prune, float* logits);
  ForwardStep(const ForwardStep&) = delete;  // graphs point into it
  ForwardStep& operator=(const ForwardStep&) = delete;

  /// Runs each operation as it comes.
  WorkCounters run(StepObserver* observer);

  /// Describes the step without running it.
  std::unique_ptr<RecordedGraph> record();
  /// Whether the recorded graph would compute a step with these arguments: lengths, ids, positions and pages may
  /// differ, the shape of the batch and every buffer are the same.
  bool serves(const ForwardContext& context, const StepInput& input, const KvCache& cache, bool prune,
              const float* logits) const;
  /// Puts another step's input where the graph reads it, and starts that step of the cache.
  void take(const StepInput& input);
  /// What the graph did in its last run.
  WorkCounters count(const RecordedGraph& graph);

 private:
  /// Rows that flow through a part of the network, and their part of each sequence.
  struct Rows {
    float* residual;  // [n, hidden]
    std::int64_t n;
    std::span<const SequenceSpan> spans;  // [n_seqs] in batch order, for attention
  };

  /// A StepInput that owns its arrays; between steps of one shape they keep their addresses.
  struct OwnInput {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> positions;
    std::vector<SequenceSpan> seqs;
    std::vector<std::int64_t> seq_ids;
    std::vector<std::int64_t> logit_rows;
    AttentionKind attention;
    const std::int32_t* chosen;
  };

  struct QueryRows {
    float* q;  // [rows_.n, n_heads * head_dim]
    std::int64_t stride;
  };

  void find_kept_rows();
  void issue();
  void embed();
  void layer(std::int64_t l);
  QueryRows project_and_append(const PackedLayer& weights);
  QueryRows project(ProfilerRange& operation, const PackedLayer& weights, bool prunes, float* row, float* normed);
  bool fuses(std::int64_t n) const;
  void append(ProfilerRange& operation, bool has_q, bool rotates, float* row);
  void project_q(const PackedQkv& qkv, const float* x, const QueryRows& queries);
  void project_kv(const PackedQkv& qkv, const float* x, float* k);
  void normalise_heads(float* x, std::int64_t stride, std::int64_t n, std::int64_t n_heads, const PackedVector& weight);
  void rotate(float* x, std::int64_t stride, std::int64_t n, std::int64_t n_heads,
              std::span<const std::int32_t> positions, const float* rope_table);
  void attend(const QueryRows& queries);
  void count_attention(const AttentionArgs& args, const AttentionWork& attention);
  void finish_counting();
  void mlp(const PackedLayer& weights);
  void activate(ProfilerRange& operation, const PackedLayer& weights, float* normed, float* up, float* activated);
  void head();
  void keep_logit_rows(const float* normed);

  void norm(const float* x, std::int64_t n, const PackedVector& weight, const PackedVector& bias, float* y);
  void multiply(const PackedMatrix& weight, const PackedVector& bias, const float* x, std::int64_t n, float* y,
                std::int64_t y_stride, bool accumulate);
  void multiply_normed(const PackedLinear& linear, const PackedVector& norm_weight, std::int64_t n, float* y,
                       float* normed, float* gate_up);
  void count_product(const PackedMatrix& weight, const PackedVector& bias, std::int64_t n);
  void use(const PackedVector& vector);
  void note(const ProfilerRange& operation, std::string_view tensor, std::initializer_list<std::int64_t> shape);
  void note_part(const ProfilerRange& operation, std::string_view tensor, std::initializer_list<std::int64_t> shape);
  void report(const OperationRecord& record) const;

  ForwardContext context_;
  const ModelConfig& config_;
  Operations& ops_;
  OwnInput input_;
  KvCache& cache_;
  bool prune_;
  float* logits_;
  StepObserver* observer_ = nullptr;
  bool recording_ = false;

  std::int64_t n_tokens_;
  std::int64_t hidden_;
  std::int64_t q_width_;    // n_heads * head_dim
  std::int64_t kv_width_;   // n_kv_heads * head_dim
  std::int64_t qkv_width_;  // q_width_ + 2 kv_width_
  Fusions fusions_;
  std::size_t weight_element_bytes_;
  std::int64_t layer_ = -1;
  Rows rows_;
  std::vector<SequenceSpan> kept_spans_;       // [n_seqs] of a pruned layer
  std::vector<std::int32_t> kept_positions_;   // [n_logit_rows] the same
  std::vector<AttentionArgs> attention_args_;  // [layers with attention] of a recorded step
  std::int64_t workspace_growths_ = 0;         // when the step was recorded
  WorkCounters work_;                          // of a recorded step all but attention
  std::int64_t noted_flops_ = 0;               // counted since the last note
  std::int64_t noted_weight_bytes_ = 0;        // the same
  std::int64_t noted_kv_read_bytes_ = 0;       // the same
  std::int64_t noted_kv_write_bytes_ = 0;      // the same
};

}  // namespace kvlab
