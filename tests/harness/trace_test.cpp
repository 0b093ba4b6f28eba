// SPEC S13's shapes as a decoder of that shape really runs them.
#include "harness/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/accounting.h"
#include "harness/graph_dot.h"
#include "tests/harness/shapes.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using Shape = std::vector<std::int64_t>;

const std::vector<std::int32_t> kPrompt = {0, 3, 7, 1, 9};

std::vector<TracedPhase> trace_of(const Variant& variant) {
  const std::shared_ptr<const WeightSource> weights = make_synthetic_weights(testing_shapes::toy(), 1);
  Transformer transformer(make_cpu_operations(1), weights, variant);
  Decoder decoder(transformer, variant, 1, 6);
  return trace_decoder(decoder, kPrompt);
}

/// The shape of a tensor in a layer; empty unless it has one and the same shape wherever it occurs there.
Shape shape_of(const TracedPhase& phase, const std::string& tensor, std::int64_t layer) {
  std::set<Shape> shapes;
  for (const TracedOperation& operation : phase.operations) {
    if (operation.tensor == tensor && operation.layer == layer) shapes.insert(operation.shape);
  }
  return shapes.size() == 1 ? *shapes.begin() : Shape{};
}

std::int64_t flops_of(const TracedPhase& phase) {
  std::int64_t sum = 0;
  for (const TracedOperation& operation : phase.operations) sum += operation.flops;
  return sum;
}

TEST(SpecS13, PrefillShapesInEveryLayer) {
  const TracedPhase prefill = trace_of({}).at(0);
  EXPECT_EQ(shape_of(prefill, "X", -1), (Shape{5, 4}));
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    for (const char* tensor : {"Q", "K", "V"}) EXPECT_EQ(shape_of(prefill, tensor, layer), (Shape{5, 4})) << tensor;
    EXPECT_EQ(shape_of(prefill, "Q (a head)", layer), (Shape{5, 2}));
    EXPECT_EQ(shape_of(prefill, "K, V (a head)", layer), (Shape{5, 2}));
    EXPECT_EQ(shape_of(prefill, "scores (a head)", layer), (Shape{5, 5}));
    EXPECT_EQ(shape_of(prefill, "head out", layer), (Shape{5, 2}));
    EXPECT_EQ(shape_of(prefill, "heads joined", layer), (Shape{5, 4}));
    EXPECT_EQ(shape_of(prefill, "projected", layer), (Shape{5, 4}));
    EXPECT_EQ(shape_of(prefill, "MLP", layer), (Shape{5, 8}));
    EXPECT_EQ(shape_of(prefill, "block out", layer), (Shape{5, 4}));
    EXPECT_EQ(shape_of(prefill, "K cache", layer), (Shape{5, 4}));
    EXPECT_EQ(shape_of(prefill, "V cache", layer), (Shape{5, 4}));
  }
  EXPECT_EQ(shape_of(prefill, "logits", -1), (Shape{1, 12}));
}

TEST(SpecS13, AllLogitsAndTheLastRowUsed) {
  Variant variant;
  variant.logits = LogitsKind::all;
  const TracedPhase prefill = trace_of(variant).at(0);
  EXPECT_EQ(shape_of(prefill, "logits", -1), (Shape{5, 12}));
  EXPECT_EQ(prefill.n_logit_rows, 5);
  EXPECT_EQ(prefill.chosen_id, trace_of({}).at(0).chosen_id);
}

TEST(SpecS13, DecodeShapesInEveryLayer) {
  const TracedPhase decode = trace_of({}).at(1);
  EXPECT_EQ(shape_of(decode, "X", -1), (Shape{1, 4}));
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    for (const char* tensor : {"Q", "K", "V"}) EXPECT_EQ(shape_of(decode, tensor, layer), (Shape{1, 4})) << tensor;
    EXPECT_EQ(shape_of(decode, "Q (a head)", layer), (Shape{1, 2}));
    EXPECT_EQ(shape_of(decode, "K, V (a head)", layer), (Shape{6, 2}));
    EXPECT_EQ(shape_of(decode, "scores (a head)", layer), (Shape{1, 6}));
    EXPECT_EQ(shape_of(decode, "head out", layer), (Shape{1, 2}));
    EXPECT_EQ(shape_of(decode, "MLP", layer), (Shape{1, 8}));
    EXPECT_EQ(shape_of(decode, "K cache", layer), (Shape{6, 4}));
  }
  EXPECT_EQ(shape_of(decode, "logits", -1), (Shape{1, 12}));
}

TEST(SpecS22, TracedFlopsAddUpToTheToyNumbers) {
  const std::vector<TracedPhase> phases = trace_of({});
  EXPECT_EQ(flops_of(phases[0]), 4656);
  EXPECT_EQ(flops_of(phases[1]), 1152);
}

/// Every value of every axis that changes what is computed or kept.
std::vector<Variant> traced_variants() {
  std::vector<Variant> list = every_variant({}, 6, 2);
  for (const char* chunk : {"1", "3"}) {
    for (const char* prune : {"none", "last_layer"}) {
      for (const char* logits : {"last", "all"}) {
        Variant variant;
        find_axis("prefill_chunk").set(variant, chunk);
        find_axis("prune").set(variant, prune);
        find_axis("logits").set(variant, logits);
        list.push_back(variant);
      }
    }
  }
  Variant qkv;
  qkv.cache = CacheKind::qkv;
  qkv.prune = PruneKind::last_layer;
  qkv.kv_dtype = DType::bf16;
  list.push_back(qkv);
  return list;
}

void expect_sums(const TracedPhase& phase, const WorkCounters& work) {
  const TracedOperation total = phase.total();
  EXPECT_EQ(total.flops, work.gemm_flops + work.attention_flops);
  EXPECT_EQ(total.weight_bytes, work.weight_bytes);
  EXPECT_EQ(total.kv_read_bytes, work.kv_read_bytes);
  EXPECT_EQ(total.kv_write_bytes, work.kv_write_bytes);
}

TEST(SpecS22, TracedOperationsAddUpToTheFormulasInEveryVariant) {
  ModelConfig windowed = testing_shapes::odd_gqa();
  windowed.sliding_window = 3;
  for (const ModelConfig& config : {testing_shapes::odd_gqa(), windowed}) {
    const std::shared_ptr<const WeightSource> weights = make_synthetic_weights(config, 1);
    for (const Variant& variant : traced_variants()) {
      SCOPED_TRACE(variant_label(variant));
      Transformer transformer(make_cpu_operations(1), weights, variant);
      Decoder decoder(transformer, variant, 1, 6);
      const std::vector<TracedPhase> phases = trace_decoder(decoder, kPrompt);
      const Workload workload{1, 0, 5, 2};
      expect_sums(phases[0], prefill_work(config, variant, workload));
      expect_sums(phases[1], decode_step_work(config, variant, workload, 1));
    }
  }
}

TEST(Trace, ShapesAloneGiveTheSameOperations) {
  const ModelConfig config = testing_shapes::odd_gqa();
  const std::shared_ptr<const WeightSource> weights = make_synthetic_weights(config, 1);
  for (const Variant& variant : traced_variants()) {
    SCOPED_TRACE(variant_label(variant));
    Transformer transformer(make_cpu_operations(1), weights, variant);
    Decoder decoder(transformer, variant, 1, 6);
    const std::vector<TracedPhase> run = trace_decoder(decoder, kPrompt);
    const std::vector<TracedPhase> shapes = trace_shapes(config, variant, kPrompt);
    for (std::size_t phase = 0; phase < 2; ++phase) {
      EXPECT_EQ(shapes[phase].operations, run[phase].operations);
      EXPECT_EQ(shapes[phase].n_logit_rows, run[phase].n_logit_rows);
      EXPECT_FALSE(shapes[phase].chosen_id.has_value());
    }
  }
}

TEST(SpecS22, ShapesOfAModelTooLargeToRunAddUpToItsFormulas) {
  const std::vector<std::int32_t> prompt(64, 7);
  const std::vector<TracedPhase> phases = trace_shapes(testing_shapes::llama_8b(), {}, prompt);
  expect_sums(phases[0], prefill_work(testing_shapes::llama_8b(), {}, {1, 0, 64, 2}));
  EXPECT_EQ(shape_of(phases[1], "scores (a head)", 31), (Shape{1, 65}));
  EXPECT_NE(trace_table(phases).find("shapes only"), std::string::npos);
}

TEST(Trace, TableAndJsonHoldEveryOperation) {
  const std::vector<TracedPhase> phases = trace_of({});
  const nlohmann::ordered_json json = trace_json(phases);
  ASSERT_EQ(json["phases"].size(), 2U);
  EXPECT_EQ(json["phases"][0]["operations"].size(), phases[0].operations.size());
  EXPECT_EQ(json["phases"][0]["tokens"], kPrompt);
  EXPECT_EQ(json["phases"][1]["tokens"][0], *phases[0].chosen_id);
  EXPECT_EQ(json["phases"][0]["total"]["flops"], 4656);
  EXPECT_DOUBLE_EQ(json["phases"][0]["total"]["flops_per_byte"],
                   4656.0 / static_cast<double>(phases[0].total().bytes()));
  const std::string table = trace_table(phases);
  const auto lines = static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n'));
  EXPECT_EQ(lines, phases[0].operations.size() + phases[1].operations.size() + 2 * 4);
  EXPECT_NE(table.find("(5,5)"), std::string::npos);
}

TEST(SpecS19, TheRecordedGraphIsDrawnWithOperationsAndShapes) {
  Variant variant;
  variant.execution = ExecutionKind::graph;
  Transformer transformer(make_cpu_operations(1), make_synthetic_weights(testing_shapes::toy(), 1), variant);
  Decoder decoder(transformer, variant, 1, 6);
  const std::string text = trace_dot(decoder, kPrompt);
  EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
  const std::string prefill = text.substr(0, text.find("cluster_decode"));
  const std::string decode = text.substr(text.find("cluster_decode"));
  // The step before pruning of the worked example: 3 layers, S13's shapes.
  using testing::HasSubstr;
  EXPECT_THAT(prefill, HasSubstr("label=\"QKV projection 2\\nmatmul W (12,4)\""));
  EXPECT_THAT(prefill, HasSubstr("label=\"Q (5,4)\""));
  EXPECT_THAT(prefill, HasSubstr("label=\"K (5,4)\""));
  EXPECT_THAT(prefill, HasSubstr("label=\"(5,8)\""));
  EXPECT_THAT(decode, HasSubstr("label=\"Q (1,4)\""));
  EXPECT_THAT(decode, HasSubstr("label=\"V (6,4)\"")) << "the cache holds six";
  EXPECT_THAT(decode, HasSubstr("_logits [label=\"(1,12)\"]"));
  // Each operation hangs together: all but the first read what another wrote.
  const std::vector<GraphNode>& nodes = decoder.graph()->nodes();
  std::set<std::size_t> reached;
  for (const GraphEdge& edge : graph_edges(nodes)) reached.insert(edge.to);
  EXPECT_EQ(reached.size(), nodes.size() - 1);
}

}  // namespace
}  // namespace kvlab
