// Tells a listener every operation of a step as it is issued: what `trace` prints and profiler ranges name. A step with
// a listener runs operation by operation, with execution=graph as well.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvlab {

struct OperationRecord {
  std::string_view name;            // "qkv projection", "attention", ...
  std::int64_t layer = -1;          // -1: outside the layers
  std::string_view tensor;          // what comes out: "Q", "scores (a head)", "logits"
  std::vector<std::int64_t> shape;  // of that tensor
  std::int64_t flops = 0;  // 0 for operations that SPEC S22 leaves out, and for tensors that are parts of another
  std::int64_t weight_bytes = 0;
  std::int64_t kv_read_bytes = 0;
  std::int64_t kv_write_bytes = 0;
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void operation(const OperationRecord& record) = 0;
};

}  // namespace kvlab
