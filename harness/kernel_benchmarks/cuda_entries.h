// Benchmarks of the CUDA backend's kernels: products of few rows and attention, with all operands in device memory.
// They ask for operations like the transformer, so that what is timed is what a model runs.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/kernel_benchmarks/entries.h"

namespace kvlab {

/// Attention over a ragged batch of equal sequences; n_queries is 1 (decode) or the context (prefill, causal).
struct CudaAttentionCase {
  std::int64_t n_seqs;
  std::int64_t n_queries;
  std::int64_t context;
  std::int64_t page_size;  // 0: contiguous
};

struct CudaBenchmarkSet {
  LayerShape shape;
  std::int64_t rotated_bytes;  // of operands of cold calls
  std::vector<DType> dtypes;
  std::vector<std::int64_t> gemv_rows;
  std::vector<CudaAttentionCase> attention;
};

/// A layer of Llama 3.1 8B: KV of 268 MB for decoding, contiguous and in pages of 64; a causal prefill of 8,192. Cold
/// calls rotate over three times the largest L2 of today's devices.
CudaBenchmarkSet cuda_benchmark_set();
/// The same kinds on a layer that an emulated device runs in no time.
CudaBenchmarkSet tiny_benchmark_set();

/// Entries whose product is the GEMV's choice: worth running by each of its engines.
std::vector<KernelEntry> cuda_gemv_entries(const CudaBenchmarkSet& set);
std::vector<KernelEntry> cuda_attention_entries(const CudaBenchmarkSet& set);

}  // namespace kvlab
