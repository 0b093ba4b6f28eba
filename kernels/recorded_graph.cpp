// Finds out from addresses which operations depend on which.
#include "kernels/recorded_graph.h"

#include <algorithm>

namespace kvlab {
namespace {

std::uintptr_t first_byte(const TensorRange& range) { return reinterpret_cast<std::uintptr_t>(range.data); }

std::uintptr_t end_byte(const TensorRange& range) {
  return first_byte(range) + static_cast<std::uintptr_t>((range.n_rows - 1) * range.stride_bytes + range.row_bytes);
}

bool any_overlap(const std::vector<TensorRange>& a, const std::vector<TensorRange>& b) {
  return std::any_of(a.begin(), a.end(), [&](const TensorRange& range) {
    return std::any_of(b.begin(), b.end(), [&](const TensorRange& other) { return overlap(range, other); });
  });
}

/// Whether `outer` holds every byte of `inner`.
bool covers(const TensorRange& outer, const TensorRange& inner) {
  if (first_byte(outer) > first_byte(inner) || end_byte(outer) < end_byte(inner)) return false;
  if (outer.n_rows == 1 || outer.stride_bytes == outer.row_bytes || outer.stride_bytes == 0) return true;
  const auto stride = static_cast<std::uintptr_t>(outer.stride_bytes);
  return outer.stride_bytes == inner.stride_bytes &&
         (first_byte(inner) - first_byte(outer)) % stride + static_cast<std::uintptr_t>(inner.row_bytes) <=
             static_cast<std::uintptr_t>(outer.row_bytes);
}

}  // namespace

bool overlap(const TensorRange& a, const TensorRange& b) {
  if (a.n_rows == 0 || b.n_rows == 0) return false;
  if (first_byte(a) >= end_byte(b) || first_byte(b) >= end_byte(a)) return false;
  if (a.stride_bytes != b.stride_bytes || a.stride_bytes == 0) return true;
  // Columns of one matrix: they meet or not in every row alike.
  const auto stride = static_cast<std::uintptr_t>(a.stride_bytes);
  const auto& [low, high] =
      std::minmax(a, b, [](const TensorRange& x, const TensorRange& y) { return first_byte(x) < first_byte(y); });
  const std::uintptr_t column = (first_byte(high) - first_byte(low)) % stride;
  return column < static_cast<std::uintptr_t>(low.row_bytes) ||
         column + static_cast<std::uintptr_t>(high.row_bytes) > stride;
}

bool conflict(const GraphNode& a, const GraphNode& b) {
  return any_overlap(a.writes, b.reads) || any_overlap(a.writes, b.writes) || any_overlap(a.reads, b.writes);
}

std::vector<GraphEdge> graph_edges(std::span<const GraphNode> nodes) {
  std::vector<GraphEdge> edges;
  for (std::size_t to = 0; to < nodes.size(); ++to) {
    for (const TensorRange& tensor : nodes[to].reads) {
      bool complete = false;
      for (std::size_t from = to; from-- > 0 && !complete;) {
        const bool writes_some = std::any_of(nodes[from].writes.begin(), nodes[from].writes.end(),
                                             [&](const TensorRange& written) { return overlap(written, tensor); });
        if (!writes_some) continue;
        edges.push_back({from, to, tensor});
        complete = std::any_of(nodes[from].writes.begin(), nodes[from].writes.end(),
                               [&](const TensorRange& written) { return covers(written, tensor); });
      }
    }
  }
  return edges;
}

}  // namespace kvlab
