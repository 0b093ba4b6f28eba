// Weights and caches drawn where they live, with the bits that the host draws (kernels/random.h). Includes no CUDA
// header.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/random_kv.h"
#include "kernels/views.h"

struct CUstream_st;  // *CUstream_st is CUDA's cudaStream_t

namespace kvlab::cuda {

/// out[i] = random_value(values, first + i), rounded to bf16 where `out` is that. Device pointer: out [n]. Throws
/// InputError for a negative n.
void launch_fill_random(const RandomValues& values, std::uint64_t first, std::int64_t n, float* out,
                        CUstream_st* stream);
void launch_fill_random(const RandomValues& values, std::uint64_t first, std::int64_t n, Bf16* out,
                        CUstream_st* stream);

/// Operations::fill_kv. What `view` points to, its tables too, is device memory. Throws InputError when n_tokens is
/// more than a sequence's row of the page table holds, or when there are more than 65,535 sequences or KV heads.
void launch_fill_kv(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens, std::int64_t n_kv_heads,
                    std::int64_t head_dim, const KvView& view, CUstream_st* stream);

}  // namespace kvlab::cuda
