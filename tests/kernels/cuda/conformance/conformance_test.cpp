// Primitives against tables typed from the PTX ISA manual (warp-level matrix instructions, shfl, cp.async, cvt, ex2).
// Built twice: against the emulator, and against the device where nvcc is, so that the same tables hold for both.
#include "tests/kernels/cuda/conformance/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/cuda/conformance/runtime_fixture.h"

namespace kvlab::cuda::conformance {
namespace {

class CudaConformance : public RuntimeFixture {
 protected:
  void expect_products(bool f16, std::size_t n_cases, const std::vector<float>& a, const std::vector<float>& b,
                       const std::vector<float>& c, double tolerance);
};

// A value that both 2-byte formats hold exactly, as bits.
std::uint16_t exact_bits(bool f16, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (!f16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0.0F) return 0;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  return static_cast<std::uint16_t>(sign | ((bits & 0x7FFFFFFFU) - (112U << 23)) >> 13);
}

// Where element i of a lane's fragment stands: the manual's tables for .m16n8k16 with .f16 and .bf16.
struct Place {
  std::size_t row;
  std::size_t column;
};
Place place_of_a(std::size_t lane, std::size_t i) {
  const bool upper = i < 2 || (4 <= i && i < 6);
  return {upper ? lane >> 2 : (lane >> 2) + 8, i < 4 ? lane % 4 * 2 + (i & 1) : lane % 4 * 2 + (i & 1) + 8};
}
Place place_of_b(std::size_t lane, std::size_t i) {
  return {i < 2 ? lane % 4 * 2 + (i & 1) : lane % 4 * 2 + (i & 1) + 8, lane >> 2};
}
Place place_of_c(std::size_t lane, std::size_t i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}

// a [n_cases, 16, 16], b [n_cases, 16, 8], c [n_cases, 16, 8], their values exact in the format.
void CudaConformance::expect_products(bool f16, std::size_t n_cases, const std::vector<float>& a,
                                      const std::vector<float>& b, const std::vector<float>& c, double tolerance) {
  std::vector<std::uint32_t> a_fragments(n_cases * 32 * 4);
  std::vector<std::uint32_t> b_fragments(n_cases * 32 * 2);
  std::vector<float> d_fragments(n_cases * 32 * 4);
  for (std::size_t at = 0; at < n_cases * 32; ++at) {
    const std::size_t lane = at % 32;
    const std::size_t n = at / 32;
    for (std::size_t i = 0; i < 8; ++i) {
      const Place place = place_of_a(lane, i);
      const std::uint32_t bits = exact_bits(f16, a[n * 256 + place.row * 16 + place.column]);
      a_fragments[at * 4 + i / 2] |= bits << (i % 2 * 16);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const Place place = place_of_b(lane, i);
      const std::uint32_t bits = exact_bits(f16, b[n * 128 + place.row * 8 + place.column]);
      b_fragments[at * 2 + i / 2] |= bits << (i % 2 * 16);
      const Place out = place_of_c(lane, i);
      d_fragments[at * 4 + i] = c[n * 128 + out.row * 8 + out.column];
    }
  }
  float* d = upload("d", d_fragments);
  launch_multiply(f16, static_cast<int>(n_cases), upload("a", a_fragments), upload("b", b_fragments), d, nullptr);
  const std::vector<float> result = download(d, d_fragments.size());
  for (std::size_t at = 0; at < n_cases * 32 * 4; ++at) {
    const std::size_t n = at / 128;
    const Place place = place_of_c(at / 4 % 32, at % 4);
    double expected = static_cast<double>(c[n * 128 + place.row * 8 + place.column]);
    double scale = std::fabs(expected);
    for (std::size_t k = 0; k < 16; ++k) {
      const double product =
          static_cast<double>(a[n * 256 + place.row * 16 + k]) * static_cast<double>(b[n * 128 + k * 8 + place.column]);
      expected += product;
      scale += std::fabs(product);
    }
    ASSERT_LE(std::fabs(static_cast<double>(result[at]) - expected), tolerance * scale)
        << "case " << n << ", row " << place.row << ", column " << place.column << ", f16 " << f16;
  }
}

TEST_F(CudaConformance, MultiplyPutsEveryElementOfAWhereTheManualSays) {
  // Case (m, k): A is one there and zero elsewhere, so that row m of the product is row k of B.
  std::vector<float> a(256 * 256, 0.0F);
  std::vector<float> b(256 * 128);
  std::vector<float> c(256 * 128);
  for (std::size_t n = 0; n < 256; ++n) {
    a[n * 256 + n] = 1.0F;
    for (std::size_t i = 0; i < 128; ++i) {
      b[n * 128 + i] = static_cast<float>(i + 1);
      c[n * 128 + i] = static_cast<float>(1000 * (i + 1));
    }
  }
  for (const bool f16 : {false, true}) expect_products(f16, 256, a, b, c, 0.0);
}

TEST_F(CudaConformance, MultiplyPutsEveryElementOfBWhereTheManualSays) {
  std::vector<float> a(128 * 256);
  std::vector<float> b(128 * 128, 0.0F);
  for (std::size_t n = 0; n < 128; ++n) {
    b[n * 128 + n] = -2.0F;
    for (std::size_t i = 0; i < 256; ++i) a[n * 256 + i] = static_cast<float>(i + 1);
  }
  for (const bool f16 : {false, true}) expect_products(f16, 128, a, b, std::vector<float>(128 * 128, 0.0F), 0.0);
}

TEST_F(CudaConformance, MultiplySumsSixteenProductsInFloat) {
  std::mt19937 random(5);
  const auto draw = [&random](std::size_t n) {
    std::vector<float> values(n);
    // Multiples of 1/64 below 2: exact in both formats.
    for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64.0F;
    return values;
  };
  const std::vector<float> a = draw(4 * 256);
  const std::vector<float> b = draw(4 * 128);
  const std::vector<float> c = draw(4 * 128);
  // Every partial sum is a multiple of 2^-12 below 2^6, so that f32 holds it exactly, in any order.
  for (const bool f16 : {false, true}) expect_products(f16, 4, a, b, c, 0.0);
}

TEST_F(CudaConformance, LoadMatrixGivesEachLaneTheValuesOfTheManual) {
  std::vector<std::uint16_t> tile(32 * 8);
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<std::uint16_t>(i + 1);
  std::uint32_t* out = upload("out", std::vector<std::uint32_t>(kMatrixRegisters * 32, 0));
  launch_load_matrix(upload("tile", tile), out, nullptr);
  const std::vector<std::uint32_t> result = download(out, kMatrixRegisters * 32);
  const std::vector<std::size_t> matrix_of_register = {0, 0, 1, 0, 1, 2, 3, 0, 0, 1, 0, 1, 2, 3};
  for (std::size_t r = 0; r < kMatrixRegisters; ++r) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      // Row r of matrix m lies where lane 8 m + r points to. Lane T holds row T / 4, columns 2 (T % 4) and the next.
      const auto value = [&](std::size_t row, std::size_t column) {
        return std::uint32_t{tile[(5 * (8 * matrix_of_register[r] + row) + 3) % 32 * 8 + column]};
      };
      const std::size_t row = lane / 4;
      const std::size_t column = lane % 4 * 2;
      const std::uint32_t plain = value(row, column) | value(row, column + 1) << 16;
      const std::uint32_t transposed = value(column, row) | value(column + 1, row) << 16;
      EXPECT_EQ(result[r * 32 + lane], r < 7 ? plain : transposed) << "register " << r << ", lane " << lane;
    }
  }
}

TEST_F(CudaConformance, ShufflesAndBallots) {
  std::uint32_t* out = upload("out", std::vector<std::uint32_t>(kWarpRows * 32, 0));
  launch_warp_operations(out, nullptr);
  const std::vector<std::uint32_t> result = download(out, kWarpRows * 32);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    SCOPED_TRACE(lane);
    // The manual: with c the segment's mask, idx reads (lane & segmask) | (b & ~segmask); up and down keep the own
    // value where the source would leave the segment.
    EXPECT_EQ(result[lane], 100 + ((lane & 24U) | ((3 * lane + 1) & 7U)));
    EXPECT_EQ(result[32 + lane], 100 + (lane ^ 5U));
    EXPECT_EQ(result[64 + lane], 100 + (lane % 16 >= 3 ? lane - 3 : lane));
    EXPECT_EQ(result[96 + lane], 100 + (lane % 16 + 3 < 16 ? lane + 3 : lane));
    EXPECT_EQ(result[128 + lane], (lane ^ 1U) << 8);
    EXPECT_EQ(result[160 + lane], 0x49249249U);
    EXPECT_EQ(result[192 + lane], lane < 20 ? 0x55555U : 0U);
  }
}

TEST_F(CudaConformance, ReductionsFollowTheButterfly) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> in(32 * 3);
  for (float& value : in) value = normal(random);
  float* out = upload("out", std::vector<float>(4 * 32 * 3, 0.0F));
  launch_reductions(upload("in", in), out, nullptr);
  const std::vector<float> result = download(out, 4 * 32 * 3);
  for (std::size_t kind = 0; kind < 4; ++kind) {
    const std::size_t width = kind < 2 ? 32 : 8;
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<float> now(32);
      for (std::size_t lane = 0; lane < 32; ++lane) now[lane] = in[lane * 3 + i];
      for (std::size_t distance = width / 2; distance > 0; distance /= 2) {
        const std::vector<float> before = now;
        for (std::size_t lane = 0; lane < 32; ++lane) {
          const float other = before[lane ^ distance];
          now[lane] = kind % 2 == 0 ? before[lane] + other : std::max(before[lane], other);
        }
      }
      for (std::size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(result[(kind * 32 + lane) * 3 + i], now[lane]);
    }
  }
}

TEST_F(CudaConformance, AsyncCopiesFillWithZeros) {
  std::vector<std::uint8_t> in(32 * 16);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i % 255 + 1);
  std::uint8_t* out = upload("out", std::vector<std::uint8_t>(in.size(), 0xEE));
  launch_async_copy(upload("in", in), out, nullptr);
  const std::vector<std::uint8_t> result = download(out, in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(result[i], i % 16 < i / 16 % 17 ? in[i] : 0) << "row " << i / 16 << ", byte " << i % 16;
  }
}

struct Conversion {
  float value;
  std::uint16_t bf16;
  std::uint16_t f16;
};

TEST_F(CudaConformance, ConversionsRoundToNearestEven) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<Conversion> table = {
      {0.0F, 0x0000, 0x0000},
      {-0.0F, 0x8000, 0x8000},
      {1.0F, 0x3F80, 0x3C00},
      {-2.0F, 0xC000, 0xC000},
      {1.00390625F, 0x3F80, 0x3C04},     // 1 + 2^-8: a tie of bf16, to even
      {1.01171875F, 0x3F82, 0x3C0C},     // 1 + 3 * 2^-8: a tie, up to even
      {1.00048828125F, 0x3F80, 0x3C00},  // 1 + 2^-11: a tie of f16
      {1.00146484375F, 0x3F80, 0x3C02},  // 1 + 3 * 2^-11
      {65504.0F, 0x4780, 0x7BFF},        // the largest half
      {65519.996F, 0x4780, 0x7BFF},      // the last float that rounds to it
      {65520.0F, 0x4780, 0x7C00},        // and the first that does not
      {0x1p-14F, 0x3880, 0x0400},        // the least normal half
      {0x1.ff8p-15F, 0x3880, 0x03FF},    // a subnormal one
      {0x1p-24F, 0x3380, 0x0001},        // the least subnormal half
      {0x1p-25F, 0x3300, 0x0000},        // a tie with zero
      {0x1.8p-24F, 0x33C0, 0x0002},      // a tie, up to even
      {0x1p-149F, 0x0000, 0x0000},       // the least float
      {3.4028235e38F, 0x7F80, 0x7C00},   // the largest float
      {kInf, 0x7F80, 0x7C00},
      {-kInf, 0xFF80, 0xFC00},
      {std::bit_cast<float>(0x7F800001U), 0x7FFF, 0x7FFF},
      {std::bit_cast<float>(0xFFC12345U), 0x7FFF, 0x7FFF},
  };
  std::vector<float> in;
  for (const Conversion& row : table) in.push_back(row.value);
  const std::size_t n = in.size();
  std::uint16_t* bf16 = upload("bf16", std::vector<std::uint16_t>(n));
  std::uint16_t* f16 = upload("f16", std::vector<std::uint16_t>(n));
  float* exp2 = upload("exp2", std::vector<float>(n));
  std::uint32_t* packed_bf16 = upload("packed_bf16", std::vector<std::uint32_t>(n));
  std::uint32_t* packed_f16 = upload("packed_f16", std::vector<std::uint32_t>(n));
  launch_conversions(upload("in", in), static_cast<std::int64_t>(n), bf16, f16, exp2, packed_bf16, packed_f16, nullptr);
  const auto bf16_bits = download(bf16, n);
  const auto f16_bits = download(f16, n);
  const auto bf16_pairs = download(packed_bf16, n);
  const auto f16_pairs = download(packed_f16, n);
  for (std::size_t i = 0; i < n; ++i) {
    SCOPED_TRACE(table[i].value);
    EXPECT_EQ(bf16_bits[i], table[i].bf16);
    EXPECT_EQ(f16_bits[i], table[i].f16);
    EXPECT_EQ(bf16_pairs[i] & 0xFFFFU, table[i].bf16);
    EXPECT_EQ(f16_pairs[i] & 0xFFFFU, table[i].f16);
    if (std::isnan(table[i].value)) continue;  // a NaN has no sign
    EXPECT_EQ(bf16_pairs[i] >> 16, table[i].bf16 ^ 0x8000U);
    EXPECT_EQ(f16_pairs[i] >> 16, table[i].f16 ^ 0x8000U);
  }
}

TEST_F(CudaConformance, WideningGivesTheValueOfEveryBitPattern) {
  float* out = upload("out", std::vector<float>(2 * 65536));
  launch_widening(out, nullptr);
  const std::vector<float> result = download(out, 2 * 65536);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const std::uint32_t exponent = bits >> 10 & 31U;
    const double fraction = static_cast<double>(bits & 1023U);
    double half = std::ldexp(exponent == 0 ? fraction : fraction + 1024, std::max(static_cast<int>(exponent), 1) - 25);
    if (exponent == 31) half = fraction == 0 ? INFINITY : NAN;
    if ((bits & 0x8000U) != 0) half = -half;
    const auto bf16 = std::bit_cast<float>(bits << 16);
    const auto same = [](float actual, double expected) {
      return std::isnan(expected) ? std::isnan(actual) : static_cast<double>(actual) == expected;
    };
    ASSERT_TRUE(same(result[bits], half)) << "half " << bits << ": " << result[bits] << ", expected " << half;
    ASSERT_TRUE(same(result[65536 + bits], static_cast<double>(bf16))) << "bf16 " << bits;
  }
}

TEST_F(CudaConformance, Exp2StaysWithinTheManualsBound) {
  std::vector<float> in;
  for (int i = 0; i < 4096; ++i) in.push_back(static_cast<float>(i - 3072) / 24.0F);
  const std::vector<float> edges = {-INFINITY, INFINITY, -0.0F, 1e-40F, -150.0F, -126.0F, 127.5F, 128.0F, NAN};
  in.insert(in.end(), edges.begin(), edges.end());
  const std::size_t n = in.size();
  float* exp2 = upload("exp2", std::vector<float>(n));
  launch_conversions(upload("in", in), static_cast<std::int64_t>(n), upload("bf16", std::vector<std::uint16_t>(n)),
                     upload("f16", std::vector<std::uint16_t>(n)), exp2,
                     upload("packed_bf16", std::vector<std::uint32_t>(n)),
                     upload("packed_f16", std::vector<std::uint32_t>(n)), nullptr);
  const std::vector<float> result = download(exp2, n);
  for (std::size_t i = 0; i < 4096; ++i) {
    const double expected = std::exp2(static_cast<double>(in[i]));
    const double floor = 0x1p-126;  // subnormal results are flushed
    if (expected < floor) {
      EXPECT_EQ(result[i], 0.0F) << in[i];
    } else {
      EXPECT_LE(std::fabs(static_cast<double>(result[i]) - expected), 0x1p-22 * expected) << in[i];
    }
  }
  const std::vector<float> at_edges(result.begin() + 4096, result.end());
  EXPECT_EQ(at_edges[0], 0.0F);
  EXPECT_EQ(at_edges[1], INFINITY);
  EXPECT_EQ(at_edges[2], 1.0F);
  EXPECT_EQ(at_edges[3], 1.0F);
  EXPECT_EQ(at_edges[4], 0.0F);
  EXPECT_EQ(at_edges[5], 0x1p-126F);
  EXPECT_LE(std::fabs(at_edges[6] - 0x1.6a09e6p127F), 0x1p105F);
  EXPECT_EQ(at_edges[7], INFINITY);
  EXPECT_TRUE(std::isnan(at_edges[8]));
}

TEST_F(CudaConformance, AtomicsLoseNothing) {
  unsigned* counters = upload("counters", std::vector<unsigned>(3, 0));
  unsigned* tickets = upload("tickets", std::vector<unsigned>(256, 999));
  float* sum = upload("sum", std::vector<float>(1, 0.0F));
  launch_atomics(counters, tickets, sum, nullptr);
  EXPECT_EQ(download(counters, 3), (std::vector<unsigned>{255 * 128, 255, 256}));
  EXPECT_EQ(download(sum, 1), std::vector<float>{128.0F});
  std::vector<unsigned> drawn = download(tickets, 256);
  std::sort(drawn.begin(), drawn.end());
  for (unsigned i = 0; i < 256; ++i) EXPECT_EQ(drawn[i], i);
}

}  // namespace
}  // namespace kvlab::cuda::conformance
