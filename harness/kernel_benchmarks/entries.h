// The one explicit list of kernel benchmarks: every operation of kernels/operations.h that a step runs. Packing happens
// once at load and is not among them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/kernel_benchmarks/entry.h"

namespace kvlab {

struct LayerShape {
  std::string_view name;
  std::int64_t hidden;
  std::int64_t n_heads;
  std::int64_t n_kv_heads;
  std::int64_t head_dim;
  std::int64_t ffn_hidden;
  std::int64_t vocab_size;
};

/// As in configs/models.
inline constexpr std::array<LayerShape, 2> kLayerShapes = {{
    {"smollm2-135m", 576, 9, 3, 64, 1536, 49152},
    {"llama-3.1-8b", 4096, 32, 8, 128, 14336, 128256},
}};

std::vector<KernelEntry> kernel_entries();

void add_matmul_entries(const LayerShape& shape, std::vector<KernelEntry>& entries);
void add_attention_entries(const LayerShape& shape, std::vector<KernelEntry>& entries);
void add_append_entries(const LayerShape& shape, std::vector<KernelEntry>& entries);
void add_row_entries(const LayerShape& shape, std::vector<KernelEntry>& entries);

}  // namespace kvlab
