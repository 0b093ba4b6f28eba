// Sampling on the device: the token that model/sampling chooses on the CPU. Includes no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/sampling.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// What a row gets in place of an id when one of its logits is NaN or +inf, or none is finite: the error of
/// Sampler::choose.
constexpr std::int32_t kNoChoice = -1;

/// Ids that a row may choose from.
constexpr std::int32_t kMostChoices = 1 << 20;

/// Bytes of scratch that launch_sample needs: the weight of every id.
constexpr std::size_t sample_scratch_bytes(std::int64_t n_rows, std::int32_t n_choices) {
  return static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(n_choices) * sizeof(std::uint64_t);
}

/// ids[r] = the id that a Sampler whose state is states[r] chooses from row r under settings[r], or kNoChoice; a row
/// that is not greedy advances its state by one draw. Settings go by value with the launch, in parts of 64 rows.
/// Device pointers: logits [n_rows, n_choices], rows `stride` apart; states [n_rows], which begin as the seeds; scratch
/// of sample_scratch_bytes, 8-byte aligned; ids [n_rows]. n_rows is the number of settings. Throws InputError for
/// settings that check_sampling refuses and for n_choices outside 1 to kMostChoices.
void launch_sample(const float* logits, std::int64_t stride, std::int32_t n_choices,
                   std::span<const SamplingSettings> settings, std::uint64_t* states, void* scratch, std::int32_t* ids,
                   CUstream_st* stream);

}  // namespace kvlab::cuda
