// Dequantised values against those of the Python package gguf, bit for bit (scripts/make_dequant_golden.py).
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/files/tensor_values.h"
#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json golden(const std::string& name) { return json::parse(read_bytes(golden_folder("dequant/" + name))); }

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

TensorInfo tensor_of(const std::string& type, const std::string& bytes, std::int64_t n_elements) {
  return {"t", type, {n_elements}, std::as_bytes(std::span(bytes.data(), bytes.size()))};
}

/// The sum over i of (2 i + 1) times the bits of value i, modulo 2^64.
std::uint64_t checksum(const std::vector<float>& values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += (2 * i + 1) * std::bit_cast<std::uint32_t>(values[i]);
  return sum;
}

class Dequantisation : public ::testing::TestWithParam<const char*> {};

TEST_P(Dequantisation, EveryBlockEqualsTheGoldenOneBitForBit) {
  const std::string type = GetParam();
  const json entries = golden("blocks.json")["types"];
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const json& e) { return e["type"] == type; });
  ASSERT_NE(entry, entries.end());
  const std::string blocks = from_hex((*entry)["blocks"]);
  const std::string expected_bytes = from_hex((*entry)["values"]);
  std::vector<float> expected(expected_bytes.size() / sizeof(float));
  std::memcpy(expected.data(), expected_bytes.data(), expected_bytes.size());
  std::vector<float> values(expected.size());
  read_values(tensor_of(type, blocks, static_cast<std::int64_t>(values.size())), 0, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << "element " << i << ": " << values[i] << " instead of " << expected[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Dequantisation,
                         ::testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K",
                                           "Q6_K"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TensorValues, EveryFiniteHalfHasTheValueOfItsFormula) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const std::string bytes = bytes_of_all(halves);
  std::vector<float> values(halves.size());
  read_values(tensor_of("F16", bytes, 65536), 0, values);
  for (const std::uint16_t half : halves) {
    const int exponent = (half >> 10) & 31;
    const int mantissa = half & 1023;
    const double sign = half < 0x8000 ? 1.0 : -1.0;
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(values[half]), mantissa != 0) << half;
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(static_cast<double>(values[half]), sign * magnitude) << half;
    ASSERT_EQ(std::signbit(values[half]), half >= 0x8000) << half;
  }
}

TEST(TensorValues, APartIsReadFromItsOwnBlocks) {
  const json entries = golden("blocks.json")["types"];
  const auto entry = std::find_if(entries.begin(), entries.end(), [](const json& e) { return e["type"] == "Q8_0"; });
  const std::string blocks = from_hex((*entry)["blocks"]);
  const TensorInfo tensor = tensor_of("Q8_0", blocks, static_cast<std::int64_t>(blocks.size()) / 34 * 32);
  std::vector<float> whole(static_cast<std::size_t>(tensor.shape[0]));
  std::vector<float> part(64);
  read_values(tensor, 0, whole);
  read_values(tensor, 96, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 96));
}

TEST(TensorValues, WhatIsOutsideCutOrOfAnotherTypeIsRefusedByName) {
  const std::string bytes(34 * 2, '\0');
  const TensorInfo tensor = tensor_of("Q8_0", bytes, 64);
  std::vector<float> out(32);
  EXPECT_THAT(input_error([&] { read_values(tensor, 64, out); }), AllOf(HasSubstr("'t'"), HasSubstr("outside")));
  EXPECT_THAT(input_error([&] { read_values(tensor, 16, out); }), HasSubstr("cut a block"));
  EXPECT_THAT(input_error([&] { read_values(tensor, INT64_MAX - 31, out); }), HasSubstr("outside"));
  EXPECT_THAT(input_error([&] { read_values(tensor, -32, out); }), HasSubstr("outside"));
  const TensorInfo other = tensor_of("IQ2_XS", bytes, 256);
  EXPECT_THAT(input_error([&] { read_values(other, 0, out); }), AllOf(HasSubstr("IQ2_XS"), HasSubstr("Q6_K")));
  EXPECT_FALSE(can_read_values("I32"));
}

TEST(TensorValues, SizesAreWholeBlocksAndDoNotOverflow) {
  EXPECT_EQ(tensor_bytes("Q4_K", 512), 288);
  EXPECT_EQ(tensor_bytes("Q6_K", 256), 210);
  EXPECT_EQ(tensor_bytes("Q4_1", 33), std::nullopt);
  EXPECT_EQ(tensor_bytes("F32", -1), std::nullopt);
  EXPECT_EQ(tensor_bytes("F32", INT64_MAX / 2), std::nullopt);
  EXPECT_EQ(tensor_bytes("Q9_9", 32), std::nullopt);
}

class RealModel : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RealModel, EveryTensorHasTheGoldenChecksum) {
  const auto [file_name, fetch_name] = GetParam();
  const std::string path = std::string(KVLAB_SOURCE_DIR) + "/models/" + file_name;
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is not there; fetch it with: scripts/fetch_model.py " << fetch_name;
  }
  const auto file = GgufFile::open(path);
  const json entries = golden(std::string(file_name) + ".json")["tensors"];
  std::vector<std::string> compared;
  for (const json& entry : entries) {
    const std::string name = entry["tensor"];
    const TensorInfo* tensor = file->find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->type, entry["type"]) << name;
    std::vector<float> values(entry["count"].get<std::size_t>());
    read_values(*tensor, entry["begin"].get<std::int64_t>(), values);
    ASSERT_EQ(fmt::format("{:016x}", checksum(values)), entry["checksum"]) << name << " of type " << tensor->type;
    if (compared.empty() || compared.back() != name) compared.push_back(name);
  }
  EXPECT_EQ(compared.size(), file->tensors().size());
}

INSTANTIATE_TEST_SUITE_P(Files, RealModel,
                         ::testing::Values(std::pair("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2"),
                                           std::pair("gemma-3-270m-q4_k_m.gguf", "gemma3")),
                         [](const auto& test) { return std::string(test.param.second); });

}  // namespace
}  // namespace kvlab::test
