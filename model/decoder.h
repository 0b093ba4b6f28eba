// Drives a transformer over sequences under one variant: prefill, chunks, decode, recompute. Knows no text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/sampling.h"
#include "model/transformer.h"
#include "variants/cache/kv_cache.h"
#include "variants/variant.h"

namespace kvlab {

/// K and V of tokens that no pass computed (kernels/random_kv.h).
struct KvDraw {
  std::uint64_t seed = 1;
  std::int64_t n_kv_heads = 0;  // that are drawn, the others of a re-headed model are copies of them; 0: all
  std::int64_t first_seq = 0;   // which of the drawn sequences is sequence 0
};

class Decoder {
 public:
  /// For `n_seqs` sequences of at most `capacity` tokens each (0: the variant's kv_capacity, else the context length).
  /// Throws InputError when capacity exceeds the context. `transformer` outlives the decoder and was made for
  /// `variant`.
  Decoder(Transformer& transformer, const Variant& variant, std::int64_t n_seqs, std::int64_t capacity,
          std::uint64_t page_seed = 1);
  ~Decoder();

  /// Appends tokens to every sequence in passes of at most `prefill_chunk` rows a sequence (prefill attention). Prompts
  /// may differ in length; each has at least one token. May be called again: the cached tokens stay (depth).
  void prefill(std::span<const std::vector<std::int32_t>> prompts);
  /// Gives every sequence `n_tokens` cached tokens whose K and V are drawn, in place of a prefill: the same values
  /// whatever the cache. The sequences are empty so far. Throws InputError when the cache keeps no tokens or they do
  /// not fit.
  void fill(std::int64_t n_tokens, const KvDraw& draw);
  /// Appends one token to every sequence (decode attention). Without a cache this recomputes every row, with the decode
  /// attention.
  void decode(std::span<const std::int32_t> tokens);
  /// Seconds that the device spent on the oldest prefill or decode that was not asked for yet; waits for it. Of calls
  /// that nobody asks for, the last two are kept. Nothing where only the host has a clock.
  std::optional<double> take_device_s();
  /// With sampling=device: appends to every sequence what the last call chose for it, without the host (which has to
  /// take part where there is no cache, and after drop_newest).
  void decode_chosen();
  /// With sampling=device: the ids [n_seqs] of the oldest prefill or decode whose choices were not taken yet; waits for
  /// them. Throws std::runtime_error, as Sampler::choose does, when the logits of a sequence have no choice.
  std::vector<std::int32_t> take_choices();
  /// With sampling=device: takes back the newest decode step, whose choices nobody took, and its draws.
  void drop_newest();
  /// With execution=graph: runs the step that comes next and takes it back, so that it is recorded before somebody
  /// looks at the clock. `tokens` [n_seqs] are its tokens; `fed_back`: it will be decode_chosen. Does nothing without a
  /// cache, where every step has a shape of its own. Logits of the last call are lost.
  void rehearse(std::span<const std::int32_t> tokens, bool fed_back);
  /// With sampling=device: ids at or above `n` are never chosen; default: none.
  void set_choosable(std::int64_t n);
  /// With sampling=device: how the following calls choose for a sequence; default: greedy. Throws InputError as
  /// check_sampling does.
  void set_sampling(std::int64_t seq, const SamplingSettings& settings);
  /// With sampling=device: from here on a sequence draws what a Sampler(seed) would. Default: seed 0.
  void seed_sampling(std::int64_t seq, std::uint64_t seed);
  /// Forgets sequence `seq`.
  void release(std::int64_t seq);

  /// Logits of the newest row of a sequence after the last call, [vocab_size]. With sampling=device they come to the
  /// host only when this is called.
  std::span<const float> logits(std::int64_t seq) const;
  /// With logits=all: every row that the last pass (the last chunk) computed for a sequence, [rows, vocab_size].
  std::span<const float> all_logits(std::int64_t seq) const;

  std::int64_t length(std::int64_t seq) const;
  std::int64_t capacity() const;
  std::int64_t n_seqs() const;
  const Variant& variant() const;
  const ModelConfig& config() const;

  /// Of the last prefill or decode call, and of all calls.
  const WorkCounters& last_work() const;
  const WorkCounters& total_work() const;
  KvFootprint kv() const;
  /// Activations, scratch and logits of the largest pass so far (SPEC S25); without a cache its K and V are among them.
  std::int64_t workspace_bytes() const;

  /// Hears the operations of the following passes, which then run one by one; null: nobody.
  void observe(StepObserver* observer);

  /// With execution=graph: the graph of the last pass, and how many passes had to be recorded. Null and 0 without.
  const RecordedGraph* graph() const;
  std::int64_t n_recorded() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlab
