// Naive attention's softmax on the emulated device: against the formula in float64, with masks, windows and counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "tests/kernels/bounds.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::random_values;
using kvlab::test::rounding_bound;

constexpr float kScale = 0.125F;

struct Keys {
  std::int64_t first;
  std::int64_t end;
};

Keys visible_keys(const MaskedSoftmaxArgs& args, std::int64_t row) {
  const std::int64_t end = args.kv_len - args.n_queries + row % args.n_queries + 1;
  const std::int64_t first = args.window > 0 ? std::max<std::int64_t>(0, end - args.window) : 0;
  return {first, std::max(first, end)};
}

/// One row [kv_len] of weights and their bounds. An argument a of exp is off by 2 u |a|, exp by 4 u, the sum of n terms
/// by n u and by the largest of its terms' errors, reciprocal and product by 2 u: (4 |a| + n + 10) u in all. Terms
/// below 2^-126 may lose everything.
void expect_row(const MaskedSoftmaxArgs& args, std::int64_t row, const float* scores, const float* weights) {
  const Keys keys = visible_keys(args, row);
  double largest = -INFINITY;
  double smallest = INFINITY;
  for (std::int64_t j = keys.first; j < keys.end; ++j) {
    largest = std::max(largest, double{scores[j]});
    smallest = std::min(smallest, double{scores[j]});
  }
  double sum = 0.0;
  for (std::int64_t j = keys.first; j < keys.end; ++j) sum += std::exp(double{args.scale} * (scores[j] - largest));
  std::vector<double> expected(static_cast<std::size_t>(args.kv_len));
  std::vector<double> bounds(expected.size());
  for (std::int64_t j = keys.first; j < keys.end; ++j) {
    const auto at = static_cast<std::size_t>(j);
    expected[at] = std::exp(double{args.scale} * (scores[j] - largest)) / sum;
    bounds[at] = rounding_bound(keys.end - keys.first + 10, expected[at]) +
                 4.0 * double{args.scale} * (largest - smallest) * kvlab::test::kUnitRoundoff * expected[at] + 1e-37;
  }
  const std::vector<float> actual(weights, weights + args.kv_len);
  kvlab::test::expect_within(actual, expected, bounds);
}

void expect_weights(const MaskedSoftmaxArgs& args, const std::vector<float>& scores,
                    const std::vector<float>& weights) {
  for (std::int64_t row = 0; row < args.n_heads * args.n_queries; ++row) {
    SCOPED_TRACE(testing::Message() << "row " << row << " of " << args.n_queries << " queries, " << args.kv_len
                                    << " keys, window " << args.window);
    expect_row(args, row, scores.data() + row * args.stride, weights.data() + row * args.weights_stride);
  }
}

std::vector<float> random_scores(const MaskedSoftmaxArgs& args) {
  auto scores = random_values(args.n_heads * args.n_queries * args.stride, 11);
  for (float& score : scores) score *= 80.0F;
  return scores;
}

MaskedSoftmaxArgs arguments(std::int64_t n_heads, std::int64_t n_queries, std::int64_t kv_len, std::int64_t stride) {
  MaskedSoftmaxArgs args;
  args.n_heads = n_heads;
  args.n_queries = n_queries;
  args.kv_len = kv_len;
  args.stride = stride;
  args.weights_stride = stride;
  args.scale = kScale;
  return args;
}

TEST(CudaMaskedSoftmax, MeetsTheFormula) {
  for (const std::int64_t kv_len : {1, 3, 4, 5, 97, 255, 256, 257, 1023, 1024, 1025, 5000}) {
    for (const std::int64_t n_queries : {1, 3}) {
      for (const std::int64_t window : {0, 1, 16, 300}) {
        MaskedSoftmaxArgs args = arguments(2, n_queries, kv_len, window == 16 ? (kv_len + 7) / 8 * 8 : kv_len);
        args.window = window;
        const auto scores = random_scores(args);
        emulation::Device device({.seed = static_cast<std::uint64_t>(window)});
        const test::DeviceArray<float> in("scores", scores);
        const test::DeviceArray<float> out("weights", scores.size());
        args.scores = in.data();
        launch_masked_softmax(args, out.data(), nullptr);
        expect_weights(args, scores, out.values());
      }
    }
  }
}

TEST(CudaMaskedSoftmax, ReadsThreeTimesWhatIsVisibleAndWritesOnce) {
  for (const std::int64_t stride : {2048, 2049}) {  // 16-byte accesses, and words
    MaskedSoftmaxArgs args = arguments(2, 4, 2048, stride);
    const auto scores = random_scores(args);
    emulation::Device device({.seed = 5});
    const test::DeviceArray<float> in("scores", scores);
    const test::DeviceArray<float> out("weights", scores.size());
    args.scores = in.data();
    launch_masked_softmax(args, out.data(), nullptr);
    const auto reads = device.log().reads_of("scores");
    const auto writes = device.log().writes_of("weights");
    EXPECT_EQ(writes.lane_bytes, 2 * 4 * 2048 * 4);
    EXPECT_EQ(writes.touched_bytes, 2 * 4 * 2048 * 4);
    if (stride == 2048) {
      EXPECT_EQ(reads.lane_bytes, 3 * 2 * 4 * 2048 * 4) << "the last access of a row holds a visible key";
      EXPECT_EQ(reads.sectors, reads.least_sectors);
      EXPECT_EQ(writes.sectors, writes.least_sectors);
    } else {
      EXPECT_EQ(reads.lane_bytes, 3 * 2 * (2045 + 2046 + 2047 + 2048) * 4);
    }
    EXPECT_EQ(device.log().of_shared().wavefronts, device.log().of_shared().least_wavefronts);
  }
}

TEST(CudaMaskedSoftmax, LargeScoresMaskedRowsAndMoreQueriesThanKeys) {
  MaskedSoftmaxArgs args = arguments(1, 5, 3, 4);  // queries 0 and 1 stand before the first key
  args.scale = 1.0F;
  std::vector<float> scores(20, -6e4F);
  scores[17] = -6e4F + 1.0F;
  const emulation::Device device({.seed = 2});
  const test::DeviceArray<float> in("scores", scores);
  const test::DeviceArray<float> out("weights", scores.size());
  args.scores = in.data();
  launch_masked_softmax(args, out.data(), nullptr);
  const auto weights = out.values();
  for (const std::size_t i : {0U, 1U, 2U, 4U, 5U, 6U, 9U, 10U, 14U}) EXPECT_EQ(weights[i], 0.0F) << i;
  EXPECT_EQ(weights[8], 1.0F);
  EXPECT_EQ(weights[12], 0.5F);
  expect_weights(args, scores, weights);
}

TEST(CudaMaskedSoftmax, WorksInPlaceAndRoundsToBf16) {
  MaskedSoftmaxArgs args = arguments(2, 3, 37, 40);
  const auto scores = random_scores(args);
  const emulation::Device device({.seed = 4});
  const test::DeviceArray<float> in("scores", scores);
  const test::DeviceArray<Bf16> rounded("weights", scores.size());
  args.scores = in.data();
  launch_masked_softmax(args, rounded.data(), nullptr);
  launch_masked_softmax(args, in.data(), nullptr);
  expect_weights(args, scores, in.values());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(rounded.values()[i].bits, bf16_from_float(in.values()[i]).bits);
  }
}

TEST(CudaMaskedSoftmax, ANanIsNotHidden) {
  MaskedSoftmaxArgs args = arguments(1, 2, 8, 8);
  auto scores = random_scores(args);
  scores[3] = NAN;  // of the first query alone
  const emulation::Device device;
  const test::DeviceArray<float> in("scores", scores);
  args.scores = in.data();
  launch_masked_softmax(args, in.data(), nullptr);
  EXPECT_TRUE(std::isnan(in.values()[0]));
  EXPECT_FALSE(std::isnan(in.values()[8]));
}

TEST(CudaMaskedSoftmax, RefusesRowsThatOverlap) {
  const emulation::Device device;
  MaskedSoftmaxArgs args = arguments(1, 1, 8, 7);
  EXPECT_THROW(launch_masked_softmax(args, static_cast<float*>(nullptr), nullptr), InputError);
  args = arguments(1, 1, 8, 8);
  args.scale = NAN;
  EXPECT_THROW(launch_masked_softmax(args, static_cast<float*>(nullptr), nullptr), InputError);
  args = arguments(1, 1, 0, 0);
  EXPECT_NO_THROW(launch_masked_softmax(args, static_cast<float*>(nullptr), nullptr)) << "nothing to do";
}

}  // namespace
}  // namespace kvlab::cuda
