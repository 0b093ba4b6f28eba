#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernels/error.h"
#include "model/recorded_step.h"

namespace kvlab {
namespace {

/// One pass over some of the sequences.
struct Pass {
  std::vector<std::int32_t> tokens;      // [n_tokens]
  std::vector<std::int32_t> positions;   // [n_tokens]
  std::vector<SequenceSpan> spans;       // [n_seqs of the pass]
  std::vector<std::int64_t> seq_ids;     // [n_seqs of the pass]
  std::vector<std::int64_t> logit_rows;  // ascending

  void add(std::int64_t seq, std::span<const std::int32_t> new_tokens, std::int64_t first_position) {
    const auto first_row = static_cast<std::int64_t>(tokens.size());
    const auto n = static_cast<std::int64_t>(new_tokens.size());
    tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
    for (std::int64_t i = 0; i < n; ++i) positions.push_back(static_cast<std::int32_t>(first_position + i));
    spans.push_back({first_row, n, first_position + n});
    seq_ids.push_back(seq);
  }
};

/// The logits that the last pass computed for a sequence.
struct LogitRows {
  std::vector<float> values;  // [rows, vocab_size]
};

}  // namespace

struct Decoder::State {
  State(Transformer& model, const Variant& chosen, std::int64_t sequences, std::int64_t tokens, std::uint64_t page_seed)
      : transformer(model),
        variant(chosen),
        n_seqs(sequences),
        capacity(tokens),
        cache(make_cache(chosen, model.kv_shape(chosen.kv_dtype), sequences, tokens, model.ops(), page_seed)),
        lengths(static_cast<std::size_t>(sequences), 0),
        history(static_cast<std::size_t>(sequences)),
        logits(static_cast<std::size_t>(sequences)) {
    if (chosen.execution == ExecutionKind::graph) recorded = std::make_unique<RecordedStep>();
  }

  /// Adds `tokens` of a sequence to a pass: with a cache these alone, without one every token so far.
  void extend(Pass& pass, std::int64_t seq, std::span<const std::int32_t> tokens, bool wants_logits) {
    std::int64_t& length = lengths[static_cast<std::size_t>(seq)];
    const auto n = static_cast<std::int64_t>(tokens.size());
    const std::int64_t first_row = static_cast<std::int64_t>(pass.tokens.size());
    cache->reserve(seq, length + n);
    if (cache->keeps_tokens()) {
      pass.add(seq, tokens, length);
    } else {
      std::vector<std::int32_t>& all = history[static_cast<std::size_t>(seq)];
      all.insert(all.end(), tokens.begin(), tokens.end());
      pass.add(seq, all, 0);
    }
    length += n;
    const auto end_row = static_cast<std::int64_t>(pass.tokens.size());
    if (variant.logits == LogitsKind::all) {
      for (std::int64_t row = first_row; row < end_row; ++row) pass.logit_rows.push_back(row);
    } else if (wants_logits) {
      pass.logit_rows.push_back(end_row - 1);
    }
  }

  void run(const Pass& pass, AttentionKind attention) {
    const std::int64_t vocab = transformer.config().vocab_size;
    pass_logits.resize(pass.logit_rows.size() * static_cast<std::size_t>(vocab));
    const StepInput input{pass.tokens, pass.positions, pass.spans, pass.seq_ids, pass.logit_rows, attention};
    const WorkCounters work =
        transformer.step(input, *cache, prunes_last_layer(variant), pass_logits, observer, recorded.get());
    last_work += work;
    const auto logit_bytes = static_cast<std::int64_t>(pass_logits.size() * sizeof(float));
    workspace_bytes = std::max(workspace_bytes, transformer.workspace_bytes() + logit_bytes);
    keep_logits(pass, vocab);
  }

  void keep_logits(const Pass& pass, std::int64_t vocab) {
    std::size_t next = 0;  // of pass.logit_rows
    for (std::size_t i = 0; i < pass.spans.size(); ++i) {
      const std::int64_t end_row = pass.spans[i].first_row + pass.spans[i].n_queries;
      const std::size_t first = next;
      while (next < pass.logit_rows.size() && pass.logit_rows[next] < end_row) ++next;
      if (next == first) continue;
      LogitRows& kept = logits[static_cast<std::size_t>(pass.seq_ids[i])];
      const auto begin = pass_logits.begin() + static_cast<std::ptrdiff_t>(first) * vocab;
      kept.values.assign(begin, begin + static_cast<std::ptrdiff_t>(next - first) * vocab);
    }
  }

  Transformer& transformer;
  Variant variant;
  std::int64_t n_seqs;
  std::int64_t capacity;
  std::unique_ptr<KvCache> cache;
  std::vector<std::int64_t> lengths;               // [n_seqs]
  std::vector<std::vector<std::int32_t>> history;  // [n_seqs] every token so far; only without a cache
  std::vector<LogitRows> logits;                   // [n_seqs]
  std::vector<float> pass_logits;                  // [logit rows of the pass, vocab_size]
  WorkCounters last_work;
  WorkCounters total_work;
  std::int64_t workspace_bytes = 0;
  StepObserver* observer = nullptr;
  std::unique_ptr<RecordedStep> recorded;  // null: operations run as they come
};

namespace {

std::int64_t checked_capacity(const ModelConfig& config, const Variant& variant, std::int64_t capacity) {
  if (capacity == 0) capacity = variant.kv_capacity;
  if (capacity == 0) capacity = config.context_length;
  if (capacity > config.context_length) {
    throw InputError(
        fmt::format("{} tokens a sequence: the context of {} is {}", capacity, config.name, config.context_length));
  }
  return capacity;
}

}  // namespace

Decoder::Decoder(Transformer& transformer, const Variant& variant, std::int64_t n_seqs, std::int64_t capacity,
                 std::uint64_t page_seed)
    : state_(std::make_unique<State>(transformer, variant, n_seqs,
                                     checked_capacity(transformer.config(), variant, capacity), page_seed)) {}

Decoder::~Decoder() = default;

void Decoder::prefill(std::span<const std::vector<std::int32_t>> prompts) {
  State& state = *state_;
  state.last_work = {};
  std::int64_t longest = 0;
  for (std::size_t seq = 0; seq < prompts.size(); ++seq) {
    const auto n = static_cast<std::int64_t>(prompts[seq].size());
    if (n == 0) throw InputError(fmt::format("the prompt of sequence {} is empty", seq));
    if (state.lengths[seq] + n > state.capacity) {
      throw InputError(fmt::format("a prompt of {} tokens after {} cached ones does not fit: {} holds {}", n,
                                   state.lengths[seq], state.transformer.config().name, state.capacity));
    }
    longest = std::max(longest, n);
  }
  const bool chunked = state.variant.prefill_chunk > 0 && state.cache->keeps_tokens();
  const std::int64_t chunk = chunked ? state.variant.prefill_chunk : longest;
  for (std::int64_t begin = 0; begin < longest; begin += chunk) {
    Pass pass;
    for (std::size_t seq = 0; seq < prompts.size(); ++seq) {
      const std::span<const std::int32_t> prompt = prompts[seq];
      const auto n = static_cast<std::int64_t>(prompt.size());
      if (begin >= n) continue;
      const std::int64_t end = std::min(n, begin + chunk);
      const auto part = prompt.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      state.extend(pass, static_cast<std::int64_t>(seq), part, end == n);
    }
    state.run(pass, state.variant.prefill_attention);
  }
  state.total_work += state.last_work;
}

void Decoder::decode(std::span<const std::int32_t> tokens) {
  State& state = *state_;
  state.last_work = {};
  Pass pass;
  for (std::size_t seq = 0; seq < tokens.size(); ++seq) {
    state.extend(pass, static_cast<std::int64_t>(seq), tokens.subspan(seq, 1), true);
  }
  state.run(pass, state.variant.decode_attention);
  state.total_work += state.last_work;
}

void Decoder::release(std::int64_t seq) {
  state_->cache->release(seq);
  state_->lengths.at(static_cast<std::size_t>(seq)) = 0;
  state_->history.at(static_cast<std::size_t>(seq)).clear();
}

std::span<const float> Decoder::logits(std::int64_t seq) const {
  const std::span<const float> all = all_logits(seq);
  return all.last(static_cast<std::size_t>(state_->transformer.config().vocab_size));
}

std::span<const float> Decoder::all_logits(std::int64_t seq) const {
  return state_->logits.at(static_cast<std::size_t>(seq)).values;
}

std::int64_t Decoder::length(std::int64_t seq) const { return state_->lengths.at(static_cast<std::size_t>(seq)); }
std::int64_t Decoder::capacity() const { return state_->capacity; }
std::int64_t Decoder::n_seqs() const { return state_->n_seqs; }
const Variant& Decoder::variant() const { return state_->variant; }
const ModelConfig& Decoder::config() const { return state_->transformer.config(); }
const WorkCounters& Decoder::last_work() const { return state_->last_work; }
const WorkCounters& Decoder::total_work() const { return state_->total_work; }
KvFootprint Decoder::kv() const { return state_->cache->footprint(); }

std::int64_t Decoder::workspace_bytes() const { return state_->workspace_bytes; }

void Decoder::observe(StepObserver* observer) { state_->observer = observer; }

const RecordedGraph* Decoder::graph() const {
  return state_->recorded == nullptr ? nullptr : state_->recorded->graph();
}

std::int64_t Decoder::n_recorded() const { return state_->recorded == nullptr ? 0 : state_->recorded->n_recorded(); }

}  // namespace kvlab
