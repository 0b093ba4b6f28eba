#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "kernels/error.h"
#include "model/device_choices.h"
#include "model/pass.h"
#include "model/profiler_range.h"
#include "model/recorded_step.h"

namespace kvlab {
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
    if (chosen.sampling == SamplingKind::device) {
      choices = std::make_unique<DeviceChoices>(model.ops(), sequences, model.config().vocab_size);
    }
  }

  DeviceChoices& device_choices() const {
    if (choices == nullptr) throw std::logic_error("this needs sampling=device");
    return *choices;
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
    if (wants_logits) pass.choosing.push_back(seq);
    if (variant.logits == LogitsKind::all) {
      for (std::int64_t row = first_row; row < end_row; ++row) pass.logit_rows.push_back(row);
    } else if (wants_logits) {
      pass.logit_rows.push_back(end_row - 1);
    }
  }

  void run(const Pass& pass, AttentionKind attention, const std::int32_t* chosen = nullptr) {
    forget_logits(pass);
    float* out = logits_for(pass.logit_rows.size());
    const StepInput input{pass.tokens, pass.positions, pass.spans, pass.seq_ids, pass.logit_rows, attention, chosen};
    const WorkCounters work =
        transformer.step(input, *cache, prunes_last_layer(variant), out, observer, recorded.get());
    last_work += work;
    const auto logit_bytes = static_cast<std::int64_t>(pass.logit_rows.size() * row_bytes());
    const std::int64_t scratch_bytes = choices == nullptr ? 0 : choices->scratch_bytes();
    workspace_bytes = std::max(workspace_bytes, transformer.workspace_bytes() + logit_bytes + scratch_bytes);
    keep_logits(pass);
    if (choices != nullptr) choose(pass);
  }

  std::size_t row_bytes() const { return static_cast<std::size_t>(transformer.config().vocab_size) * sizeof(float); }

  /// Memory for a pass's logits, [n_rows, vocab_size].
  float* logits_for(std::size_t n_rows) {
    const std::size_t bytes = n_rows * row_bytes();
    if (bytes > 0 && (pass_logits == nullptr || pass_logits->bytes() < bytes)) {
      pass_logits.reset();
      pass_logits = transformer.ops().allocate(bytes, "logits");
    }
    return pass_logits == nullptr ? nullptr : static_cast<float*>(pass_logits->data());
  }

  /// A pass takes the place of the logits before it: its own sequences' are dropped, the others' saved.
  void forget_logits(const Pass& pass) {
    for (const std::int64_t seq : pass.seq_ids) {
      logits[static_cast<std::size_t>(seq)].n_rows = 0;
      logits[static_cast<std::size_t>(seq)].on_host = true;
    }
    for (LogitRows& rows : logits) fetch(rows);
  }

  /// The host's copy of a sequence's logits.
  std::span<const float> fetch(LogitRows& rows) {
    const auto n_values = static_cast<std::size_t>(rows.n_rows * transformer.config().vocab_size);
    if (!rows.on_host) {
      rows.values.resize(n_values);
      const float* from =
          static_cast<const float*>(pass_logits->data()) + rows.first_row * transformer.config().vocab_size;
      transformer.ops().download(rows.values.data(), from, n_values * sizeof(float));
      rows.on_host = true;
    }
    return std::span(rows.values).first(n_values);
  }

  void keep_logits(const Pass& pass) {
    std::size_t next = 0;  // of pass.logit_rows
    for (std::size_t i = 0; i < pass.spans.size(); ++i) {
      const std::int64_t end_row = pass.spans[i].first_row + pass.spans[i].n_queries;
      const std::size_t first = next;
      while (next < pass.logit_rows.size() && pass.logit_rows[next] < end_row) ++next;
      if (next == first) continue;
      LogitRows& kept = logits[static_cast<std::size_t>(pass.seq_ids[i])];
      kept.first_row = static_cast<std::int64_t>(first);
      kept.n_rows = static_cast<std::int64_t>(next - first);
      kept.on_host = false;
      if (choices == nullptr) fetch(kept);
    }
  }

  /// Lets the device choose from the newest rows of a pass: in one call while rows and sequences follow one another.
  void choose(const Pass& pass) {
    const auto row_of = [&](std::int64_t seq) {
      const LogitRows& rows = logits[static_cast<std::size_t>(seq)];
      return rows.first_row + rows.n_rows - 1;
    };
    const std::vector<std::int64_t>& seqs = pass.choosing;
    for (std::size_t i = 0, end = 0; i < seqs.size(); i = end) {
      const std::int64_t row = row_of(seqs[i]);
      for (end = i + 1; end < seqs.size(); ++end) {
        const auto distance = static_cast<std::int64_t>(end - i);
        if (seqs[end] != seqs[i] + distance || row_of(seqs[end]) != row + distance) break;
      }
      choices->choose(seqs[i], static_cast<std::int64_t>(end - i),
                      static_cast<const float*>(pass_logits->data()) + row * transformer.config().vocab_size);
    }
  }

  void begin_call() {
    last_work = {};
    if (choices != nullptr) choices->begin_call();
    call_begin = transformer.ops().mark();
  }

  void end_call() {
    total_work += last_work;
    if (marks.size() == kMostInFlight) marks.pop_front();
    marks.push_back({std::move(call_begin), transformer.ops().mark()});
    if (choices != nullptr) choices->end_call();
  }

  /// Forgets the newest decode step.
  void take_back() {
    if (choices != nullptr) choices->drop_newest();
    marks.pop_back();
    for (std::int64_t seq = 0; seq < n_seqs; ++seq) {
      std::int64_t& length = lengths[static_cast<std::size_t>(seq)];
      cache->reserve(seq, --length);
      if (!cache->keeps_tokens()) history[static_cast<std::size_t>(seq)].pop_back();
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
  std::unique_ptr<Buffer> pass_logits;             // [most logit rows of a pass, vocab_size]
  std::unique_ptr<DeviceChoices> choices;          // null: the host chooses
  std::unique_ptr<TimeMark> call_begin;
  std::deque<CallMarks> marks;  // the oldest first
  WorkCounters last_work;
  WorkCounters total_work;
  std::int64_t workspace_bytes = 0;
  std::int64_t n_decode_steps = 0;  // since the last prefill
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
                                     checked_capacity(transformer.config(), variant, capacity), page_seed)) {
  transformer.reserve_positions(state_->capacity);
}

Decoder::~Decoder() = default;

void Decoder::prefill(std::span<const std::vector<std::int32_t>> prompts) {
  State& state = *state_;
  state.begin_call();
  std::int64_t longest = 0;
  std::int64_t n_tokens = 0;
  for (std::size_t seq = 0; seq < prompts.size(); ++seq) {
    const auto n = static_cast<std::int64_t>(prompts[seq].size());
    if (n == 0) throw InputError(fmt::format("the prompt of sequence {} is empty", seq));
    if (state.lengths[seq] + n > state.capacity) {
      throw InputError(fmt::format("a prompt of {} tokens after {} cached ones does not fit: {} holds {}", n,
                                   state.lengths[seq], state.transformer.config().name, state.capacity));
    }
    longest = std::max(longest, n);
    n_tokens += n;
  }
  const ProfilerRange range("prefill", n_tokens, "tokens");
  state.n_decode_steps = 0;
  const bool chunked = state.variant.prefill_chunk > 0 && state.cache->keeps_tokens();
  const std::int64_t chunk = chunked ? state.variant.prefill_chunk : longest;
  for (std::int64_t begin = 0; begin < longest; begin += chunk) {
    std::optional<ProfilerRange> chunk_range;
    if (chunk < longest) chunk_range.emplace("chunk from token", begin);
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
  state.end_call();
}

void Decoder::fill(std::int64_t n_tokens, const KvDraw& draw) {
  State& state = *state_;
  if (!state.cache->keeps_tokens()) {
    throw InputError(
        "kv_fill 'random': cache 'none' keeps no K and V that could be drawn; use contiguous, qkv or paged");
  }
  std::vector<SequenceSpan> spans;
  std::vector<std::int64_t> ids;
  for (std::int64_t seq = 0; seq < state.n_seqs; ++seq) {
    std::int64_t& length = state.lengths[static_cast<std::size_t>(seq)];
    if (length > 0) throw std::logic_error(fmt::format("fill: sequence {} holds {} tokens already", seq, length));
    state.cache->reserve(seq, n_tokens);
    length = n_tokens;
    spans.push_back({0, 0, n_tokens});
    ids.push_back(seq);
  }
  state.cache->begin_step(spans, ids);
  const ModelConfig& config = state.transformer.config();
  const std::int64_t n_drawn = draw.n_kv_heads == 0 ? config.n_kv_heads : draw.n_kv_heads;
  const std::int64_t heads_per_row = std::max<std::int64_t>(1, config.n_kv_heads / n_drawn);  // pooled heads: all drawn
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    RandomKv values = random_kv(draw.seed, layer);
    values.first_seq = draw.first_seq;
    values.heads_per_row = heads_per_row;
    state.transformer.ops().fill_kv(values, state.n_seqs, n_tokens, config.n_kv_heads, config.head_dim,
                                    state.cache->view(layer));
  }
}

void Decoder::decode(std::span<const std::int32_t> tokens) {
  State& state = *state_;
  const ProfilerRange range("decode step", ++state.n_decode_steps);
  state.begin_call();
  Pass pass;
  for (std::size_t seq = 0; seq < tokens.size(); ++seq) {
    state.extend(pass, static_cast<std::int64_t>(seq), tokens.subspan(seq, 1), true);
  }
  state.run(pass, state.variant.decode_attention);
  state.end_call();
}

void Decoder::decode_chosen() {
  State& state = *state_;
  const std::int32_t* chosen = state.device_choices().on_device();
  if (chosen == nullptr || !state.cache->keeps_tokens()) {  // without a cache each step brings every token
    decode(state.choices->newest());
    return;
  }
  const ProfilerRange range("decode step", ++state.n_decode_steps);
  state.begin_call();
  Pass pass;
  constexpr std::int32_t kOnTheDevice = 0;
  for (std::int64_t seq = 0; seq < state.n_seqs; ++seq) state.extend(pass, seq, std::span(&kOnTheDevice, 1), true);
  state.run(pass, state.variant.decode_attention, chosen);
  state.end_call();
}

std::vector<std::int32_t> Decoder::take_choices() { return state_->device_choices().take(); }

std::optional<double> Decoder::take_device_s() {
  std::deque<CallMarks>& marks = state_->marks;
  if (marks.empty()) throw std::logic_error("take_device_s: every call was asked for");
  const CallMarks oldest = std::move(marks.front());
  marks.pop_front();
  return oldest.end == nullptr ? std::nullopt : oldest.end->since_s(*oldest.begin);
}

void Decoder::drop_newest() {
  State& state = *state_;
  if (state.choices == nullptr) throw std::logic_error("drop_newest needs sampling=device");
  state.take_back();
}

void Decoder::rehearse(std::span<const std::int32_t> tokens, bool fed_back) {
  State& state = *state_;
  if (state.recorded == nullptr || !state.cache->keeps_tokens()) return;
  const ProfilerRange range("rehearsal");
  const WorkCounters last_work = state.last_work;
  const WorkCounters total_work = state.total_work;
  if (fed_back) {
    decode_chosen();
  } else {
    decode(tokens);
  }
  state.take_back();
  if (state.choices != nullptr) state.choices->restore();
  state.last_work = last_work;
  state.total_work = total_work;
  --state.n_decode_steps;
}

void Decoder::set_choosable(std::int64_t n) {
  if (state_->choices != nullptr) state_->choices->set_choosable(n);
}

void Decoder::set_sampling(std::int64_t seq, const SamplingSettings& settings) {
  state_->device_choices().set_sampling(seq, settings);
}

void Decoder::seed_sampling(std::int64_t seq, std::uint64_t seed) { state_->device_choices().seed(seq, seed); }

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
  return state_->fetch(state_->logits.at(static_cast<std::size_t>(seq)));
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
