// What a transformer and its decoder hold on an emulated device of limited memory, and what they say when it is short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "harness/memory_plan.h"
#include "kernels/cuda_emulation/backend.h"
#include "kernels/error.h"
#include "model/decoder.h"
#include "model/weight_source.h"
#include "tests/harness/shapes.h"

namespace kvlab {
namespace {

using cuda::emulation::Device;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Bytes of the device's memory that a transformer takes.
std::int64_t taken_bytes(const ModelConfig& config, const Variant& variant) {
  Device device({.counts = false});
  const std::shared_ptr<Operations> ops = cuda::emulation::make_emulated_operations(device);
  const Transformer transformer(ops, make_synthetic_weights(config, 1), variant);
  return device.allocated_bytes();
}

TEST(DeviceMemory, ATiedEmbeddingIsThereOnce) {
  Device device({.counts = false});
  const auto ops = cuda::emulation::make_emulated_operations(device);
  ModelConfig tied = testing_shapes::toy();
  tied.tied_embedding = true;
  ModelConfig untied = tied;
  untied.tied_embedding = false;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Variant variant;
    variant.weight_dtype = dtype;
    const std::int64_t head_bytes = tied.vocab_size * tied.hidden * static_cast<std::int64_t>(dtype_bytes(dtype));
    EXPECT_EQ(held_weight_bytes(untied, variant, *ops) - held_weight_bytes(tied, variant, *ops), head_bytes);
    EXPECT_EQ(held_weight_bytes(tied, variant, *make_cpu_operations(1)), held_weight_bytes(untied, variant, *ops));
  }
}

TEST(DeviceMemory, HeldWeightsAreThoseOfTheDevice) {
  ModelConfig tied = testing_shapes::toy();
  tied.tied_embedding = true;
  ModelConfig untied = tied;
  untied.tied_embedding = false;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Variant variant;
    variant.weight_dtype = dtype;
    EXPECT_EQ(taken_bytes(untied, variant) - taken_bytes(tied, variant),
              tied.vocab_size * tied.hidden * static_cast<std::int64_t>(dtype_bytes(dtype)));
  }
}

/// What is said when a decoder is made on a device of so many bytes; "" when it fits.
std::string shortage(std::int64_t memory_bytes) {
  Device device({.counts = false, .memory_bytes = memory_bytes});
  std::string said;
  try {
    const std::shared_ptr<Operations> ops = cuda::emulation::make_emulated_operations(device);
    Transformer transformer(ops, make_synthetic_weights(testing_shapes::toy(), 1), {});
    Decoder decoder(transformer, {}, 1, 16);
    decoder.prefill(std::vector<std::vector<std::int32_t>>{{1, 2, 3}});
  } catch (const OutOfMemory& error) {
    said = error.what();
  }
  EXPECT_EQ(device.allocated_bytes(), 0) << "something is left of what did fit";
  return said;
}

TEST(DeviceMemory, AShortageNamesTheBufferAndItsBytes) {
  const ModelConfig config = testing_shapes::toy();
  const std::int64_t weights_bytes = taken_bytes(config, {});
  const std::int64_t cache_bytes = 16 * config.n_layers * config.n_kv_heads * config.head_dim * 4;  // of K
  const std::string of_cache = std::to_string(cache_bytes) + " bytes";
  EXPECT_THAT(shortage(16), HasSubstr("(embedding, "));
  EXPECT_THAT(shortage(weights_bytes + cache_bytes - 1), StartsWith("K cache, " + of_cache));
  EXPECT_THAT(shortage(weights_bytes + 2 * cache_bytes - 1), StartsWith("V cache, " + of_cache));
  EXPECT_THAT(shortage(weights_bytes + 2 * cache_bytes), HasSubstr("are taken"));
  EXPECT_EQ(shortage(16 << 20), "");
}

}  // namespace
}  // namespace kvlab
