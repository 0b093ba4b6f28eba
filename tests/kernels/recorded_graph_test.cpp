// Which operations depend on which, found out from addresses; and what recording promises.
#include "kernels/recorded_graph.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/error.h"
#include "kernels/operations.h"
#include "tests/kernels/compare.h"

namespace kvlab {
namespace {

/// Columns first ... first + width of a matrix [n_rows, 10] of bytes.
TensorRange columns(const std::vector<char>& matrix, std::int64_t first, std::int64_t width, std::int64_t n_rows = 4) {
  return {"", matrix.data() + first, n_rows, width, width, 10};
}

TEST(RecordedGraph, ColumnsOfOneMatrixOverlapOnlyWhereTheyMeet) {
  const std::vector<char> matrix(40);
  EXPECT_FALSE(overlap(columns(matrix, 0, 6), columns(matrix, 6, 2)));
  EXPECT_FALSE(overlap(columns(matrix, 6, 2), columns(matrix, 8, 2)));
  EXPECT_TRUE(overlap(columns(matrix, 0, 7), columns(matrix, 6, 2)));
  EXPECT_TRUE(overlap(columns(matrix, 6, 2), columns(matrix, 0, 10)));
  EXPECT_TRUE(overlap(columns(matrix, 8, 4, 1), columns(matrix, 10, 2)));  // a row that reaches into the next one
  EXPECT_FALSE(overlap(columns(matrix, 0, 6, 0), columns(matrix, 0, 6)));  // no rows
  const TensorRange other_stride = {"", matrix.data() + 6, 2, 2, 2, 20};
  EXPECT_TRUE(overlap(columns(matrix, 0, 6), other_stride)) << "in doubt they overlap";
}

TEST(RecordedGraph, EdgesLeadFromTheLastWriters) {
  const std::vector<char> matrix(40);
  const TensorRange q = columns(matrix, 0, 6);
  const TensorRange k = columns(matrix, 6, 2);
  const TensorRange all = columns(matrix, 0, 10);
  const std::vector<GraphNode> nodes = {{"matmul", "", 0, {}, {}, {all}},
                                        {"rope", "", 0, {}, {q}, {q}},
                                        {"rope", "", 0, {}, {k}, {k}},
                                        {"append", "", 0, {}, {k}, {}},
                                        {"attention", "", 0, {}, {q}, {}}};
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (const GraphEdge& edge : graph_edges(nodes)) found.emplace_back(edge.from, edge.to);
  EXPECT_EQ(found, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {0, 2}, {2, 3}, {1, 4}}));
  EXPECT_FALSE(conflict(nodes[1], nodes[2]));
  EXPECT_FALSE(conflict(nodes[3], nodes[4])) << "both only read";
  EXPECT_TRUE(conflict(nodes[4], nodes[1])) << "a later write must wait for a read";
}

TEST(Recording, DescribesFirstAndReadsWhatPointersHoldWhenItRuns) {
  const auto ops = make_cpu_operations(1);
  const auto packed = ops->pack_matrix(test::random_matrix(7, 5, 1), DType::f32);
  std::vector<float> x = test::random_values(5, 2);
  std::vector<float> y(7, test::kUntouched);
  ops->begin_recording();
  ops->matmul(*packed, x.data(), 5, 1, y.data(), 7, nullptr, false);
  const auto graph = ops->end_recording();
  EXPECT_EQ(y, std::vector<float>(7, test::kUntouched));
  for (const std::uint32_t seed : {2U, 3U}) {
    const std::vector<float> values = test::random_values(5, seed);
    std::copy(values.begin(), values.end(), x.begin());
    graph->run();
    std::vector<float> expected(7);
    ops->matmul(*packed, x.data(), 5, 1, expected.data(), 7, nullptr, false);
    EXPECT_EQ(y, expected);
  }
}

TEST(Recording, APageTableTooShortIsRefusedBeforeAnythingRuns) {
  const auto ops = make_cpu_operations(1);
  std::vector<float> cache(64, test::kUntouched);
  const std::vector<float> rows(16, 1.0F);
  std::vector<float> normed(4, test::kUntouched);
  const std::int32_t page = 0;
  KvView view;
  view.k = cache.data();
  view.v = cache.data() + 32;
  view.page_stride = 32;
  view.head_stride = 32;
  view.slot_stride = 4;
  view.page_size = 8;
  view.page_table = &page;
  view.pages_per_seq = 1;
  std::vector<SequenceSpan> seqs = {{0, 1, 8}};
  ops->begin_recording();
  ops->rms_norm(rows.data(), 4, 1, 4, rows.data(), 1e-5F, normed.data(), 4);
  ops->append(rows.data(), rows.data() + 4, 4, seqs, 1, 4, view);
  const auto graph = ops->end_recording();
  seqs[0].kv_len = 9;  // one more than the page holds
  EXPECT_THROW(graph->run(), std::invalid_argument);
  EXPECT_EQ(normed[0], test::kUntouched);
  seqs[0].kv_len = 8;
  graph->run();
  EXPECT_EQ(cache[28], 1.0F);
  EXPECT_NE(normed[0], test::kUntouched);
}

}  // namespace
}  // namespace kvlab
