// Lays out a recorded graph as text for `dot`.
#include "harness/graph_dot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "model/sampling/sampler.h"

namespace kvlab {
namespace {

std::string node_label(const GraphNode& node) {
  std::string label = node.layer < 0 ? node.name : fmt::format("{} {}", node.name, node.layer);
  label += "\\n" + node.operation;
  if (!node.weight_shape.empty()) label += fmt::format(" W ({})", fmt::join(node.weight_shape, ","));
  return label;
}

/// A read that sees a tensor as one flat row takes the shape in which it was written.
std::string tensor_label(const TensorRange& read, const GraphNode& writer) {
  const auto same = std::find_if(writer.writes.begin(), writer.writes.end(), [&](const TensorRange& written) {
    return written.data == read.data && written.n_rows * written.width == read.n_rows * read.width;
  });
  const TensorRange& shaped = read.n_rows == 1 && same != writer.writes.end() ? *same : read;
  const std::string name = read.name.empty() ? "" : read.name + " ";
  return fmt::format("{}({},{})", name, shaped.n_rows, shaped.width);
}

/// What a node reads and no earlier one wrote: the step's own input.
std::string inputs_text(const std::string& id, const std::vector<GraphNode>& nodes,
                        const std::vector<GraphEdge>& edges) {
  std::string text;
  std::map<const void*, std::string> inputs;  // names of the nodes that stand for them
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const TensorRange& read : nodes[i].reads) {
      const bool written = std::any_of(edges.begin(), edges.end(), [&](const GraphEdge& edge) {
        return edge.to == i && edge.tensor.data == read.data;
      });
      if (written || read.name.empty()) continue;
      const auto [input, is_new] = inputs.try_emplace(read.data, fmt::format("{}_input{}", id, inputs.size()));
      if (is_new) text += fmt::format("    {} [label=\"{}\", shape=ellipse];\n", input->second, read.name);
      text += fmt::format("    {} -> {}{} [label=\"({})\"];\n", input->second, id, i, read.n_rows);
    }
  }
  return text;
}

}  // namespace

std::string graph_cluster(const std::string& id, const std::string& label, const std::vector<GraphNode>& nodes) {
  const std::vector<GraphEdge> edges = graph_edges(nodes);
  std::string text = fmt::format("  subgraph cluster_{} {{\n    label=\"{}\";\n", id, label);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    text += fmt::format("    {}{} [label=\"{}\"];\n", id, i, node_label(nodes[i]));
  }
  text += inputs_text(id, nodes, edges);
  for (const GraphEdge& edge : edges) {
    text += fmt::format("    {0}{1} -> {0}{2} [label=\"{3}\"];\n", id, edge.from, edge.to,
                        tensor_label(edge.tensor, nodes[edge.from]));
  }
  if (!nodes.empty() && nodes.back().name == "LM head") {
    const TensorRange& logits = nodes.back().writes.front();
    text += fmt::format("    {0}_logits [label=\"logits\", shape=ellipse];\n", id);
    text += fmt::format("    {0}{1} -> {0}_logits [label=\"({2},{3})\"];\n", id, nodes.size() - 1, logits.n_rows,
                        logits.width);
  }
  return text + "  }\n";
}

std::string trace_dot(Decoder& decoder, const std::vector<std::int32_t>& prompt_ids) {
  std::string text = "digraph step {\n  node [shape=box];\n";
  decoder.prefill(std::vector<std::vector<std::int32_t>>{prompt_ids});
  text += graph_cluster("prefill", fmt::format("prefill of {} tokens", prompt_ids.size()), decoder.graph()->nodes());
  Sampler greedy(0);
  const std::int32_t chosen = greedy.choose(decoder.logits(0), decoder.config().vocab_size, {});
  decoder.decode({&chosen, 1});
  text += graph_cluster("decode", fmt::format("decode of id {}", chosen), decoder.graph()->nodes());
  return text + "}\n";
}

}  // namespace kvlab
