// The choices that a device makes for the sequences of a decoder: how they are drawn, where they stay, and their way to
// the host. Knows no passes and no cache.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/operations.h"

namespace kvlab {

/// Calls whose results wait: one, and the one that ran ahead of it.
constexpr std::size_t kMostInFlight = 2;

class DeviceChoices {
 public:
  /// All greedy, from any of `vocab_size` ids. `ops` outlives the object.
  DeviceChoices(Operations& ops, std::int64_t n_seqs, std::int64_t vocab_size);

  /// Ids at or above `n` are never chosen.
  void set_choosable(std::int64_t n);
  /// How a sequence is chosen from after the calls so far. Throws InputError as check_sampling does. The first settings
  /// that are not greedy take the scratch for all sequences, so that no step has to.
  void set_sampling(std::int64_t seq, const SamplingSettings& settings);
  /// The next draw of a sequence is the first of a Sampler(seed).
  void seed(std::int64_t seq, std::uint64_t seed);

  /// A call is a pass or more, after which each sequence's newest choice counts.
  void begin_call();
  /// Chooses for `n` sequences that follow one another, from their rows of logits [n, vocab_size].
  void choose(std::int64_t first_seq, std::int64_t n, const float* logits);
  /// Sends the choices on their way to the host.
  void end_call();

  /// The ids [n_seqs] of the oldest call whose ids were not taken yet. Throws std::runtime_error, and takes nothing,
  /// when a sequence had no choice (kNoChoice).
  std::vector<std::int32_t> take();
  /// Forgets the newest call, whose ids nobody took, and takes its draws back.
  void drop_newest();
  /// Puts the newest ids that count where those of a dropped call stand.
  void restore();

  /// The newest ids that count, [n_seqs] in a buffer; null when those of a dropped call stand there.
  const std::int32_t* on_device() const { return dropped_ ? nullptr : ids(); }
  /// The same on the host, whether taken or not; throws as `take` does.
  std::vector<std::int32_t> newest() const;

  std::int64_t scratch_bytes() const { return scratch_ == nullptr ? 0 : static_cast<std::int64_t>(scratch_->bytes()); }

 private:
  struct Call {
    std::unique_ptr<PendingCopy> ids;   // null until it ends
    std::vector<std::uint64_t> states;  // [n_seqs] before it
  };

  std::int32_t* ids() const { return static_cast<std::int32_t*>(ids_->data()); }
  std::vector<std::int32_t> wait_for(const Call& call) const;

  Operations& ops_;
  std::int64_t vocab_size_;
  std::int64_t n_choosable_;
  std::vector<RowSampling> sampling_;  // [n_seqs]
  std::unique_ptr<Buffer> ids_;        // [n_seqs] int32
  std::unique_ptr<Buffer> scratch_;    // null while all are greedy
  std::deque<Call> in_flight_;         // the oldest first
  Call current_;
  std::vector<std::int32_t> taken_;  // [n_seqs] the ids before in_flight_; empty when there are none
  bool dropped_ = false;
};

}  // namespace kvlab
