// SPEC S13's shapes as a decoder of that shape really runs them.
#include "harness/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/accounting.h"
#include "tests/harness/shapes.h"

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

TEST(Trace, TableAndJsonHoldEveryOperation) {
  const std::vector<TracedPhase> phases = trace_of({});
  const nlohmann::ordered_json json = trace_json(phases);
  ASSERT_EQ(json["phases"].size(), 2U);
  EXPECT_EQ(json["phases"][0]["operations"].size(), phases[0].operations.size());
  EXPECT_EQ(json["phases"][0]["tokens"], kPrompt);
  EXPECT_EQ(json["phases"][1]["tokens"][0], phases[0].chosen_id);
  const std::string table = trace_table(phases);
  const auto lines = static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n'));
  EXPECT_EQ(lines, phases[0].operations.size() + phases[1].operations.size() + 2 * 4);
  EXPECT_NE(table.find("(5,5)"), std::string::npos);
}

}  // namespace
}  // namespace kvlab
