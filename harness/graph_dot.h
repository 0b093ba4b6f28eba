// A recorded graph in the language of Graphviz: nodes are operations, edges tensors with shapes (SPEC S19).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/recorded_graph.h"
#include "model/decoder.h"

namespace kvlab {

/// One cluster of a digraph. `id` prefixes the names of its nodes.
std::string graph_cluster(const std::string& id, const std::string& label, const std::vector<GraphNode>& nodes);

/// Runs sequence 0 of an empty decoder with execution=graph: the prompt, then one step with the greedy token. A digraph
/// of two clusters: the prefill's last pass, the decode step.
std::string trace_dot(Decoder& decoder, const std::vector<std::int32_t>& prompt_ids);

}  // namespace kvlab
