// The same random input through a primitive here and on the emulator, compared directly. "Here" is the device where
// nvcc compiled this; elsewhere it is the emulator as well, which says nothing about a device but runs the comparison.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kernels/cuda/conformance/conformance.h"
#include "tests/kernels/cuda/conformance/emulated/emulated_primitives.h"
#include "tests/kernels/cuda/conformance/runtime_fixture.h"

namespace kvlab::cuda::conformance {
namespace {

/// Beside this program, as a bundle has it, or where it was built.
std::string emulator_file() {
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").replace_filename(kEmulatedPrimitivesFile);
  return std::filesystem::exists(beside) ? beside.string() : KVLAB_EMULATED_PRIMITIVES;
}

const EmulatedPrimitives& emulator() {
  static const EmulatedPrimitives* const primitives = [] {
    void* library = dlopen(emulator_file().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto* found = static_cast<const EmulatedPrimitives*>(dlsym(library, kEmulatedPrimitivesSymbol));
    if (found == nullptr) throw std::runtime_error(dlerror());
    return found;
  }();
  return *primitives;
}

class DeviceAndEmulator : public RuntimeFixture {
 protected:
  float normal() { return distribution_(random_); }
  std::uint32_t bits() { return static_cast<std::uint32_t>(random_()); }

 private:
  std::mt19937 random_{17};
  std::normal_distribution<float> distribution_;
};

struct Converted {
  std::vector<std::uint16_t> bf16, f16;                // [n] each
  std::vector<float> exp2;                             // [n]
  std::vector<std::uint32_t> packed_bf16, packed_f16;  // [n] each

  explicit Converted(std::size_t n) : bf16(n), f16(n), exp2(n), packed_bf16(n), packed_f16(n) {}
};

Converted converted_by_emulator(const std::vector<float>& in) {
  Converted out(in.size());
  emulator().conversions(in.data(), static_cast<std::int64_t>(in.size()), out.bf16.data(), out.f16.data(),
                         out.exp2.data(), out.packed_bf16.data(), out.packed_f16.data());
  return out;
}

/// Two values of the format that `f16` names, in one register.
std::uint32_t packed_pair(bool f16, const Converted& values, std::size_t i) {
  const std::vector<std::uint16_t>& bits = f16 ? values.f16 : values.bf16;
  return static_cast<std::uint32_t>(bits[i]) | static_cast<std::uint32_t>(bits[i + 1]) << 16;
}

TEST_F(DeviceAndEmulator, ProductsDifferByTheRoundingOfTheirSumsAlone) {
  constexpr int kCases = 64;
  constexpr std::size_t kLanes = kCases * 32;
  std::vector<float> values(kLanes * 12);
  for (float& value : values) value = normal();
  const Converted converted = converted_by_emulator(values);
  for (const bool f16 : {false, true}) {
    std::vector<std::uint32_t> a(kLanes * 4);
    std::vector<std::uint32_t> b(kLanes * 2);
    std::vector<float> c(kLanes * 4);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = packed_pair(f16, converted, 2 * i);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = packed_pair(f16, converted, 2 * (a.size() + i));
    for (float& value : c) value = normal();
    float* d = upload("d", c);
    launch_multiply(f16, kCases, upload("a", a), upload("b", b), d, nullptr);
    const std::vector<float> here = download(d, c.size());
    std::vector<float> emulated = c;
    emulator().multiply(f16, kCases, a.data(), b.data(), emulated.data());
    // The products' magnitudes, by the same primitive without the signs.
    std::vector<float> magnitude = c;
    for (float& value : magnitude) value = std::fabs(value);
    for (std::uint32_t& pair : a) pair &= 0x7FFF7FFFU;
    for (std::uint32_t& pair : b) pair &= 0x7FFF7FFFU;
    emulator().multiply(f16, kCases, a.data(), b.data(), magnitude.data());
    for (std::size_t i = 0; i < here.size(); ++i) {
      // Products are exact; each of 16 additions may truncate, in any order.
      const float bound = 16 * 0x1p-23F * magnitude[i];
      EXPECT_LE(std::fabs(here[i] - emulated[i]), bound) << "f16 " << f16 << ", element " << i;
    }
  }
}

TEST_F(DeviceAndEmulator, ConversionsAndReductionsHaveTheSameBits) {
  std::vector<float> in(32 * 512);
  for (float& value : in) value = std::bit_cast<float>(bits());
  const std::size_t n = in.size();
  std::uint16_t* bf16 = upload("bf16", std::vector<std::uint16_t>(n));
  std::uint16_t* f16 = upload("f16", std::vector<std::uint16_t>(n));
  std::uint32_t* packed_bf16 = upload("packed_bf16", std::vector<std::uint32_t>(n));
  std::uint32_t* packed_f16 = upload("packed_f16", std::vector<std::uint32_t>(n));
  launch_conversions(upload("in", in), static_cast<std::int64_t>(n), bf16, f16, upload("exp2", std::vector<float>(n)),
                     packed_bf16, packed_f16, nullptr);
  const Converted emulated = converted_by_emulator(in);
  EXPECT_EQ(download(bf16, n), emulated.bf16);
  EXPECT_EQ(download(f16, n), emulated.f16);
  EXPECT_EQ(download(packed_bf16, n), emulated.packed_bf16);
  EXPECT_EQ(download(packed_f16, n), emulated.packed_f16);

  std::vector<float> summed(32 * 3);
  for (float& value : summed) value = normal();
  float* out = upload("out", std::vector<float>(4 * summed.size(), 0.0F));
  launch_reductions(upload("in", summed), out, nullptr);
  std::vector<float> expected(4 * summed.size(), 0.0F);
  emulator().reductions(summed.data(), expected.data());
  EXPECT_EQ(download(out, expected.size()), expected);
}

TEST_F(DeviceAndEmulator, Exp2DiffersByTheManualsBoundAlone) {
  std::vector<float> in(32 * 512);
  for (float& value : in) value = static_cast<float>(bits() >> 8) * (252.0F * 0x1p-24F) - 125.0F;
  in[0] = -INFINITY;
  in[1] = -127.0F;  // flushed
  const std::size_t n = in.size();
  float* exp2 = upload("exp2", std::vector<float>(n));
  launch_conversions(upload("in", in), static_cast<std::int64_t>(n), upload("bf16", std::vector<std::uint16_t>(n)),
                     upload("f16", std::vector<std::uint16_t>(n)), exp2,
                     upload("packed_bf16", std::vector<std::uint32_t>(n)),
                     upload("packed_f16", std::vector<std::uint32_t>(n)), nullptr);
  const std::vector<float> here = download(exp2, n);
  const std::vector<float> emulated = converted_by_emulator(in).exp2;
  for (std::size_t i = 0; i < n; ++i) {
    // The device within 2^-22 of the true value, the emulator within 2^-23.
    EXPECT_LE(std::fabs(here[i] - emulated[i]), (0x1p-22F + 0x1p-23F) * emulated[i]) << in[i];
  }
}

}  // namespace
}  // namespace kvlab::cuda::conformance
