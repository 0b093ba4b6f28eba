// The plans of one step's decode attentions: each is made once, on the device, and serves every layer that sees the
// same spans.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/backend/device_context.h"

namespace kvlab::cuda {

class DecodePlans {
 public:
  /// A plan, and whether whoever got it is the first and has to make it.
  struct Plan {
    ScratchMemory* memory;  // decode_plan_bytes
    bool is_new;
  };

  explicit DecodePlans(DeviceContext& context) : context_(context) {}

  /// The plan for spans that are on the device.
  Plan plan_for(const DecodeShape& shape, const SequenceSpan* seqs);
  /// Spans may have changed. The memory stays.
  void forget() { known_.clear(); }

 private:
  struct Known {
    DecodeShape shape;
    const SequenceSpan* seqs;
  };

  DeviceContext& context_;
  std::vector<Known> known_;                            // of this step
  std::vector<std::unique_ptr<ScratchMemory>> memory_;  // [most plans of a step]
};

}  // namespace kvlab::cuda
