// What a decoder really did, counted while running (SPEC S12, S16, S17, S22). The formulas live in
// harness/accounting.h.
#pragma once

#include <cstdint>
#include <vector>

namespace kvlab {

struct WorkCounters {
  std::int64_t rows = 0;                                // rows that entered the first layer
  std::int64_t kv_projection_rows = 0;                  // rows projected to K and V in one layer (equal in all)
  std::vector<std::int64_t> attention_dots;             // [n_layers] one query head
  std::vector<std::int64_t> attention_dots_newest_row;  // [n_layers] one query head, each sequence's last row
  std::int64_t gemm_flops = 0;                          // 2 per multiply-add of every matrix product
  std::int64_t attention_flops = 0;                     // 4 n_heads head_dim per dot
  std::int64_t weight_bytes = 0;   // weights used by a pass, once each; one row of the embedding per row
  std::int64_t kv_read_bytes = 0;  // distinct K and V rows read, once a pass
  std::int64_t kv_write_bytes = 0;

  WorkCounters& operator+=(const WorkCounters& other);
};

}  // namespace kvlab
