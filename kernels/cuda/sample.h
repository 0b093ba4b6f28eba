// Sampling on the device: the token that model/sampling chooses on the CPU. Includes no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/sampling.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// Ids that a row may choose from.
constexpr std::int32_t kMostChoices = 1 << 20;

/// Bytes of scratch that launch_sample needs: the weight of every id.
constexpr std::size_t sample_scratch_bytes(std::int64_t n_rows, std::int32_t n_choices) {
  return static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(n_choices) * sizeof(std::uint64_t);
}

/// ids[r] = what sample_row (kernels/sample_row.h) chooses from row r. How each row is chosen from goes by value with
/// the launch, in parts of 64 rows. Device pointers: logits [rows.size(), n_choices], rows `stride` apart; scratch of
/// sample_scratch_bytes, 8-byte aligned; ids [rows.size()]. Throws InputError for settings that check_sampling refuses
/// and for n_choices outside 1 to kMostChoices.
void launch_sample(const float* logits, std::int64_t stride, std::int32_t n_choices, std::span<const RowSampling> rows,
                   void* scratch, std::int32_t* ids, CUstream_st* stream);

}  // namespace kvlab::cuda
