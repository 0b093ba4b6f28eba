// One pass of a decoder over some of its sequences, and what is kept of a call: when it began and ended, its logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operations.h"

namespace kvlab {

/// One pass over some of the sequences.
struct Pass {
  std::vector<std::int32_t> tokens;      // [n_tokens]
  std::vector<std::int32_t> positions;   // [n_tokens]
  std::vector<SequenceSpan> spans;       // [n_seqs of the pass]
  std::vector<std::int64_t> seq_ids;     // [n_seqs of the pass]
  std::vector<std::int64_t> logit_rows;  // ascending
  std::vector<std::int64_t> choosing;    // sequences whose next token this pass decides

  void add(std::int64_t seq, std::span<const std::int32_t> new_tokens, std::int64_t first_position) {
    const auto first_row = static_cast<std::int64_t>(tokens.size());
    const auto n = static_cast<std::int64_t>(new_tokens.size());
    tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
    for (std::int64_t i = 0; i < n; ++i) positions.push_back(static_cast<std::int32_t>(first_position + i));
    spans.push_back({first_row, n, first_position + n});
    seq_ids.push_back(seq);
  }
};

/// When the device began and ended a call; null without a clock of its own.
struct CallMarks {
  std::unique_ptr<TimeMark> begin;
  std::unique_ptr<TimeMark> end;
};

/// The logits that the last pass of a sequence computed: rows of that pass, and the host's copy.
struct LogitRows {
  std::int64_t first_row = 0;  // in the pass's logits
  std::int64_t n_rows = 0;
  bool on_host = true;
  std::vector<float> values;  // [n_rows, vocab_size]
};

}  // namespace kvlab
