// A recorded list of operations that runs as one: what a backend makes of it, and what may be asked about it. Between
// two runs the arrays that recorded spans and views point to may change their contents, not their size or address.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/views.h"

namespace kvlab {

/// A tensor [n_rows, width] that an operation reads or writes, rows `stride_bytes` apart. Stride 0: the tensor stands
/// for all of a buffer, known by its start (a cache, scratch).
struct TensorRange {
  std::string name;  // "K cache"; empty for activations
  const void* data = nullptr;
  std::int64_t n_rows = 0;
  std::int64_t width = 0;  // elements
  std::int64_t row_bytes = 0;
  std::int64_t stride_bytes = 0;
};

struct GraphNode {
  std::string operation;                   // of the operation table: "matmul"
  std::string name;                        // what the model calls the step that it belongs to: "QKV projection"
  std::int64_t layer = -1;                 // -1: outside the layers
  std::vector<std::int64_t> weight_shape;  // [n_out, n_in] of a product; empty: none
  std::vector<TensorRange> reads;
  std::vector<TensorRange> writes;
};

/// A tensor that node `from` leaves for node `to`.
struct GraphEdge {
  std::size_t from;
  std::size_t to;
  TensorRange tensor;  // as `to` reads it
};

/// Whether some byte may belong to both.
bool overlap(const TensorRange& a, const TensorRange& b);
/// Whether two nodes must keep their order: one writes what the other reads or writes.
bool conflict(const GraphNode& a, const GraphNode& b);
/// For each tensor that a node reads, the nodes that last wrote a part of it.
std::vector<GraphEdge> graph_edges(std::span<const GraphNode> nodes);

class RecordedGraph {
 public:
  virtual ~RecordedGraph() = default;
  virtual void run() = 0;
  virtual const std::vector<GraphNode>& nodes() const = 0;
  /// What the attentions executed in the last run, in the order of recording.
  virtual std::vector<AttentionWork> attention_work() const = 0;
};

}  // namespace kvlab
