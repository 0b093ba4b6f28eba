// GEMV on the emulated device: against float64 that rounds where the kernel does, on awkward sizes, with every prologue
// and epilogue, in several orders of threads; and what it reads, counted.
#include "kernels/cuda/gemv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/gemv_plan.h"
#include "kernels/cuda_emulation/device.h"
#include "kernels/error.h"
#include "tests/kernels/cuda/gemv_case.h"

namespace kvlab::cuda {
namespace {

using test::GemvCase;
using test::GemvProblem;

void check(const GemvCase& c, std::uint64_t seed = 0) {
  const emulation::Device device({.seed = seed, .counts = false});
  GemvProblem(c).check();
}

// Single values, and the last width of a block of each size with one access to either side: 32 … 128 threads, 4 loads.
const std::vector<std::int64_t> kWidths = {1,   3,   8,    31,   32,   33,   97,   127,  128,  129,  256, 512,
                                           516, 520, 1016, 1024, 1032, 2040, 2048, 2053, 2056, 4096, 4104};

TEST(CudaGemv, MeetsTheReferenceAtEveryWidth) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n_in : kWidths) {
      check({.n_rows = 1, .n_out = 5, .n_in = n_in, .dtype = dtype}, 1);
      check({.n_rows = 5, .n_out = 3, .n_in = n_in, .dtype = dtype}, 2);
    }
  }
}

TEST(CudaGemv, TakesOneToEightRowsAndAnyNumberOfOutputs) {
  for (std::int64_t n_rows = 1; n_rows <= kGemvMaxRows; ++n_rows) {
    for (const std::int64_t n_out : {1, 3, 4, 7, 8, 9, 13}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        check({.n_rows = n_rows, .n_out = n_out, .n_in = 40, .dtype = dtype}, 3);
      }
    }
  }
}

TEST(CudaGemv, EveryPrologueAndEpilogueGoesWithEveryOther) {
  for (int options = 0; options < 16; ++options) {
    for (const std::int64_t n_rows : {1, 2, 3, 7}) {
      for (const std::int64_t n_in : {45, 1032}) {  // single values; 16 bytes and more than one warp
        check({.n_rows = n_rows,
               .n_out = 14,  // gates and ups: 7 pairs, the last block's are not full
               .n_in = n_in,
               .dtype = n_in == 45 ? DType::f32 : DType::bf16,
               .has_bias = (options & 1) != 0,
               .accumulate = (options & 2) != 0,
               .normalises = (options & 4) != 0,
               .gate_up = (options & 8) != 0},
              4);
      }
    }
  }
}

TEST(CudaGemv, LeavesGapsBetweenRowsAlone) {
  for (const std::int64_t gap : {4, 5}) {  // 16-byte accesses, and single values
    for (const DType dtype : {DType::f32, DType::bf16}) {
      check({.n_rows = 3, .n_out = 6, .n_in = 64, .dtype = dtype, .accumulate = true, .normalises = true, .gap = gap});
    }
  }
}

TEST(CudaGemv, EveryInstanceInEightOrdersOfThreads) {
  for (const std::int64_t n_rows : {1, 2, 4, 8}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t n_in : {1048, 259}) {  // 16-byte accesses, and single values
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          check({.n_rows = n_rows, .n_out = 9, .n_in = n_in, .dtype = dtype, .accumulate = true, .normalises = true},
                seed);
        }
      }
    }
  }
}

TEST(CudaGemv, ARowGivesTheSameBitsWhateverItsNeighbours) {
  const emulation::Device device({.counts = false});
  const std::int64_t n_in = 8200;  // more than a full block takes in four loads
  const auto rows = [&](std::int64_t n_rows) {
    return GemvProblem({.n_rows = n_rows, .n_out = 10, .n_in = n_in, .dtype = DType::bf16, .normalises = true}).run();
  };
  const auto together = rows(8);
  for (const std::int64_t n_rows : {1, 2, 3, 4, 5}) {
    const auto alone = rows(n_rows);
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(together[i], alone[i]) << n_rows << " rows, " << i;
  }
}

TEST(CudaGemv, ANotANumberStaysInItsRowAndColumn) {
  const emulation::Device device({.counts = false});
  GemvProblem problem({.n_rows = 2, .n_out = 6, .n_in = 48});
  problem.x()[1 * 48 + 17] = NAN;
  problem.weight()[4 * 48 + 3] = NAN;
  const auto y = problem.run();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 6 == 1 || i % 6 == 4) << i;
}

/// Weights are read once, in whole sectors, whatever the rows; x once a block.
void check_counts(const GemvCase& c) {
  SCOPED_TRACE(describe(c));
  emulation::Device device;
  GemvProblem problem(c);
  problem.run();
  const auto weight_bytes = c.n_out * c.n_in * static_cast<std::int64_t>(dtype_bytes(c.dtype));
  const auto weights = device.log().reads_of("weight");
  EXPECT_EQ(weights.lane_bytes, weight_bytes);
  EXPECT_EQ(weights.touched_bytes, weight_bytes);
  if (weight_bytes / c.n_out % 32 == 0) {
    EXPECT_EQ(weights.sectors * 32, weight_bytes);
    EXPECT_EQ(weights.least_sectors, weights.sectors);
  }
  const std::int64_t n_blocks = (c.n_out + kGemvRows - 1) / kGemvRows;
  const auto x = device.log().reads_of("x");
  EXPECT_EQ(x.lane_bytes, n_blocks * c.n_rows * c.n_in * 4 * (c.normalises ? 2 : 1));
  EXPECT_EQ(x.touched_bytes, c.n_rows * c.n_in * 4);
  EXPECT_EQ(device.log().reads_of("norm").lane_bytes, c.normalises ? n_blocks * c.n_in * 4 : 0);
  EXPECT_EQ(device.log().writes_of("y").lane_bytes, c.n_rows * c.width() * 4);
  EXPECT_EQ(device.log().reads_of("y").lane_bytes, c.accumulate ? c.n_rows * c.width() * 4 : 0);
  EXPECT_EQ(device.log().of_shared().wavefronts, device.log().of_shared().least_wavefronts);
}

TEST(CudaGemv, CountedBytesAreTheFormulas) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n_rows : {1, 2, 3, 8}) {
      for (const std::int64_t n_in : {16, 1040, 4096}) {
        check_counts({.n_rows = n_rows, .n_out = 9, .n_in = n_in, .dtype = dtype});
      }
      check_counts({.n_rows = n_rows, .n_out = 5, .n_in = 77, .dtype = dtype, .accumulate = true});
      check_counts({.n_rows = n_rows, .n_out = 12, .n_in = 272, .dtype = dtype, .normalises = true, .gate_up = true});
    }
  }
}

TEST(CudaGemv, ReadsOnlyWeightsBeforeThePreviousLaunchIsDone) {
  const emulation::Device device({.counts = false});
  GemvProblem first({.n_rows = 2, .n_out = 40, .n_in = 16});
  GemvProblem second({.n_rows = 2, .n_out = 8, .n_in = 40, .accumulate = true, .normalises = true});
  const test::DeviceArray<float> between("between", 80);
  GemvCall producer = first.call();
  producer.y = between.data();
  producer.y_stride = 40;
  launch_gemv(producer, nullptr);
  GemvCall consumer = second.call();
  consumer.x = between.data();
  consumer.x_stride = 40;
  consumer.overlaps_previous = true;
  EXPECT_NO_THROW(launch_gemv(consumer, nullptr));
  launch_gemv(producer, nullptr);
  consumer.weight = between.data();  // what the previous launch wrote is no weight
  consumer.n_out = 2;
  consumer.accumulate = false;
  consumer.norm_weight = nullptr;
  EXPECT_THROW(launch_gemv(consumer, nullptr), emulation::EmulationError);
}

TEST(CudaGemv, RefusesWhatItCannotRunAndNamesIt) {
  const emulation::Device device;
  GemvProblem problem({.n_rows = 2, .n_out = 6, .n_in = 8});
  const auto message = [](const GemvCall& call) {
    try {
      launch_gemv(call, nullptr);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  GemvCall call = problem.call();
  EXPECT_EQ(message(call), "");
  for (const std::int64_t n_rows : {0, 9}) {
    call.n_rows = n_rows;
    EXPECT_EQ(message(call), "gemv: " + std::to_string(n_rows) + " rows; it takes 1 to 8, cuBLAS takes any number");
  }
  call = problem.call();
  call.x_stride = 7;
  EXPECT_EQ(message(call), "gemv: strides are 7 and 6; rows of x have 8 values, rows of y 6");
  call = problem.call();
  call.n_out = 5;
  call.gate_up = true;
  EXPECT_EQ(message(call), "gemv: gate_up with 5 outputs; gates and ups are equally many");
  call.n_out = std::int64_t{1} << 31;
  EXPECT_EQ(message(call), "gemv: the weight is [2147483648, 8]; each may be 0 to 1073741823");
}

TEST(CudaGemvPlan, ThreadsFollowTheWidth) {
  const auto threads = [](std::int64_t n_in, DType dtype, bool wide) {
    GemvCall call;
    call.n_rows = 1;
    call.n_out = 4096;
    call.n_in = n_in;
    call.dtype = dtype;
    return plan_gemv(call, wide).block_size;
  };
  EXPECT_EQ(threads(576, DType::bf16, true), 32);
  EXPECT_EQ(threads(1024, DType::bf16, true), 32);
  EXPECT_EQ(threads(1032, DType::bf16, true), 64);
  EXPECT_EQ(threads(4096, DType::bf16, true), 128);
  EXPECT_EQ(threads(4096, DType::f32, true), 128);
  EXPECT_EQ(threads(14336, DType::bf16, true), 128);
  EXPECT_EQ(threads(129, DType::bf16, false), 64);
}

}  // namespace
}  // namespace kvlab::cuda
