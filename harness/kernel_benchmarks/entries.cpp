#include "harness/kernel_benchmarks/entries.h"

namespace kvlab {

std::vector<KernelEntry> kernel_entries() {
  std::vector<KernelEntry> entries;
  for (const LayerShape& shape : kLayerShapes) {
    add_matmul_entries(shape, entries);
    add_attention_entries(shape, entries);
    add_append_entries(shape, entries);
    add_row_entries(shape, entries);
  }
  return entries;
}

}  // namespace kvlab
