#include "model/device_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "model/sampling/sampler.h"

namespace kvlab {

DeviceChoices::DeviceChoices(Operations& ops, std::int64_t n_seqs, std::int64_t vocab_size)
    : ops_(ops),
      vocab_size_(vocab_size),
      n_choosable_(vocab_size),
      sampling_(static_cast<std::size_t>(n_seqs)),
      ids_(ops.allocate(sampling_.size() * sizeof(std::int32_t), "chosen tokens")) {}

void DeviceChoices::set_choosable(std::int64_t n) { n_choosable_ = std::min(n, vocab_size_); }

void DeviceChoices::set_sampling(std::int64_t seq, const SamplingSettings& settings) {
  check_sampling(settings);
  if (settings.temperature > 0.0 && scratch_ == nullptr) {
    scratch_ = ops_.allocate(
        ops_.sample_scratch_bytes(static_cast<std::int64_t>(sampling_.size()), static_cast<std::int32_t>(vocab_size_)),
        "weights of sampling");
  }
  sampling_.at(static_cast<std::size_t>(seq)).settings = settings;
}

void DeviceChoices::seed(std::int64_t seq, std::uint64_t seed) {
  const auto at = static_cast<std::size_t>(seq);
  sampling_.at(at).state = seed;
  for (Call& call : in_flight_) call.states[at] = seed;
}

void DeviceChoices::begin_call() {
  current_.states.clear();
  for (const RowSampling& one : sampling_) current_.states.push_back(one.state);
}

void DeviceChoices::choose(std::int64_t first_seq, std::int64_t n, const float* logits) {
  const auto rows = std::span(sampling_).subspan(static_cast<std::size_t>(first_seq), static_cast<std::size_t>(n));
  const auto n_choices = static_cast<std::int32_t>(n_choosable_);
  const bool greedy =
      std::all_of(rows.begin(), rows.end(), [](const RowSampling& row) { return row.settings.temperature == 0.0; });
  if (greedy) {
    ops_.argmax(logits, vocab_size_, n, n_choices, ids() + first_seq);
  } else {
    ops_.sample(logits, vocab_size_, n_choices, rows, scratch_->data(), ids() + first_seq);
  }
  for (RowSampling& row : rows) row.advance();
}

void DeviceChoices::end_call() {
  dropped_ = false;
  if (in_flight_.size() == kMostInFlight) {
    in_flight_.pop_front();
    taken_.clear();
  }
  current_.ids = ops_.start_download(ids(), ids_->bytes());
  in_flight_.push_back(std::move(current_));
}

std::vector<std::int32_t> DeviceChoices::wait_for(const Call& call) const {
  const auto* first = static_cast<const std::int32_t*>(call.ids->wait());
  const std::vector<std::int32_t> ids(first, first + sampling_.size());
  const auto none = std::find(ids.begin(), ids.end(), kNoChoice);
  if (none == ids.end()) return ids;
  throw std::runtime_error(
      fmt::format("sequence {}: a logit is NaN or +inf, or none is finite: the forward pass went wrong (sampling=host "
                  "says which)",
                  none - ids.begin()));
}

std::vector<std::int32_t> DeviceChoices::take() {
  if (in_flight_.empty()) throw std::logic_error("take_choices: every choice was taken");
  taken_ = wait_for(in_flight_.front());
  in_flight_.pop_front();
  return taken_;
}

void DeviceChoices::drop_newest() {
  if (in_flight_.empty()) throw std::logic_error("drop_newest: the choices of the newest step were taken");
  const Call& newest = in_flight_.back();
  for (std::size_t seq = 0; seq < sampling_.size(); ++seq) sampling_[seq].state = newest.states[seq];
  in_flight_.pop_back();
  dropped_ = true;
}

void DeviceChoices::restore() {
  const std::vector<std::int32_t> ids = newest();
  ops_.upload(ids_->data(), ids.data(), ids_->bytes());
  dropped_ = false;
}

std::vector<std::int32_t> DeviceChoices::newest() const {
  if (!in_flight_.empty()) return wait_for(in_flight_.back());
  if (taken_.empty()) throw std::logic_error("decode_chosen: nobody has the choices to go on from");
  return taken_;
}

}  // namespace kvlab
