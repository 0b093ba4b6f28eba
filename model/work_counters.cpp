#include "model/work_counters.h"

#include <algorithm>

namespace kvlab {
namespace {

void add_per_layer(std::vector<std::int64_t>& sums, const std::vector<std::int64_t>& values) {
  sums.resize(std::max(sums.size(), values.size()), 0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

}  // namespace

WorkCounters& WorkCounters::operator+=(const WorkCounters& other) {
  rows += other.rows;
  kv_projection_rows += other.kv_projection_rows;
  add_per_layer(attention_dots, other.attention_dots);
  add_per_layer(attention_dots_newest_row, other.attention_dots_newest_row);
  gemm_flops += other.gemm_flops;
  attention_flops += other.attention_flops;
  weight_bytes += other.weight_bytes;
  kv_read_bytes += other.kv_read_bytes;
  kv_write_bytes += other.kv_write_bytes;
  return *this;
}

}  // namespace kvlab
