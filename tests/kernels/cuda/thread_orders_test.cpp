// Every instance of the kernels that work on rows, in eight orders of threads. What they compute is checked in their
// own tests; here nothing may depend on who comes first.
#include "tests/kernels/cuda/thread_orders.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/launchers.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::random_values;
using test::expect_the_same_in_every_order;

constexpr std::int64_t kRows = 3;
/// Widths of the wide and of the narrow instances: rows of several accesses a thread, the last ones cut.
const std::vector<std::int64_t> kWidths = {1028, 1027};

/// Bf16 or float input values.
template <typename T>
std::vector<T> stored(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) {
    if constexpr (std::is_same_v<T, Bf16>) {
      result.push_back(bf16_from_float(value));
    } else {
      result.push_back(value);
    }
  }
  return result;
}

template <typename Out>
void norms_in_every_order(std::int64_t width) {
  expect_the_same_in_every_order([width] {
    const test::DeviceArray<float> x("x", random_values(kRows * width, 1));
    const test::DeviceArray<float> weight("weight", random_values(width, 2));
    const test::DeviceArray<Out> y("y", static_cast<std::size_t>(kRows * width));
    launch_rms_norm(x.data(), width, kRows, width, weight.data(), 1e-5F, y.data(), width, nullptr);
    return y.values();
  });
  expect_the_same_in_every_order([width] {
    const test::DeviceArray<float> x("x", random_values(kRows * width, 1));
    const test::DeviceArray<float> weight("weight", random_values(width, 2));
    const test::DeviceArray<Out> y("y", static_cast<std::size_t>(kRows * width));
    launch_layer_norm(x.data(), width, kRows, width, weight.data(), weight.data(), 1e-5F, y.data(), width, nullptr);
    return y.values();
  });
}

TEST(ThreadOrders, Norms) {
  for (const std::int64_t width : kWidths) {
    norms_in_every_order<float>(width);
    norms_in_every_order<Bf16>(width);
  }
}

template <typename T>
void embed_in_every_order(std::int64_t width) {
  expect_the_same_in_every_order([width] {
    const test::DeviceArray<T> table("table", stored<T>(random_values(5 * width, 1)));
    const test::DeviceArray<std::int32_t> ids("ids", std::vector<std::int32_t>{4, 0, 4});
    const test::DeviceArray<float> out("out", static_cast<std::size_t>(3 * width));
    launch_embed(table.data(), width, ids.data(), 3, out.data(), false, nullptr);
    return out.values();
  });
}

TEST(ThreadOrders, Embedding) {
  for (const std::int64_t width : kWidths) {
    embed_in_every_order<float>(width);
    embed_in_every_order<Bf16>(width);
  }
}

TEST(ThreadOrders, ArgmaxAndSilu) {
  expect_the_same_in_every_order([] {
    const test::DeviceArray<float> logits("logits", random_values(kRows * 700, 1));
    const test::DeviceArray<std::int32_t> ids("ids", kRows);
    launch_argmax(logits.data(), 700, kRows, 700, ids.data(), nullptr);
    return ids.values();
  });
  expect_the_same_in_every_order([] {
    const test::DeviceArray<float> gate_up("gate_up", random_values(kRows * 2 * 97, 1));
    const test::DeviceArray<float> out("out", kRows * 97);
    launch_silu_multiply_elementwise(gate_up.data(), kRows, 97, out.data(), nullptr);
    return out.values();
  });
}

template <typename Out>
void softmax_in_every_order(std::int64_t stride) {
  expect_the_same_in_every_order([stride] {
    const test::DeviceArray<float> scores("scores", random_values(2 * 3 * stride, 1));
    const test::DeviceArray<Out> weights("weights", static_cast<std::size_t>(2 * 3 * stride));
    MaskedSoftmaxArgs args;
    args.scores = scores.data();
    args.stride = stride;
    args.n_heads = 2;
    args.n_queries = 3;
    args.kv_len = stride;
    args.window = 300;
    args.scale = 0.5F;
    args.weights_stride = stride;
    launch_masked_softmax(args, weights.data(), nullptr);
    return weights.values();
  });
}

TEST(ThreadOrders, MaskedSoftmax) {
  for (const std::int64_t stride : {516, 515}) {
    softmax_in_every_order<float>(stride);
    softmax_in_every_order<Bf16>(stride);
  }
}

/// Two rows of two sequences, rotated and appended to regions of four slots. Returns Q, K and V as bytes.
template <typename QOut, typename Kv>
std::vector<std::byte> rotate_and_append(std::int64_t head_dim) {
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kKvHeads = 1;
  constexpr std::int64_t kSlots = 4;
  const std::int64_t width = (kHeads + 2 * kKvHeads) * head_dim;
  const auto region = static_cast<std::size_t>(kKvHeads * kSlots * head_dim);
  const test::DeviceArray<float> qkv("qkv", random_values(2 * width, 1));
  const test::DeviceArray<float> cos_sin("cos_sin", random_values(kSlots * head_dim, 2));
  const test::DeviceArray<std::int32_t> positions("positions", std::vector<std::int32_t>{3, 1});
  const test::DeviceArray<std::int32_t> seqs("seqs", std::vector<std::int32_t>{0, 1});
  const test::DeviceArray<std::int64_t> starts("starts",
                                               std::vector<std::int64_t>{0, static_cast<std::int64_t>(region)});
  const test::DeviceArray<QOut> q("q", static_cast<std::size_t>(2 * kHeads * head_dim));
  const test::DeviceArray<Kv> k("k", std::vector<Kv>(2 * region));
  const test::DeviceArray<Kv> v("v", std::vector<Kv>(2 * region));
  RopeAppendArgs args;
  args.qkv = qkv.data();
  args.qkv_stride = width;
  args.n_rows = 2;
  args.n_heads = kHeads;
  args.n_kv_heads = kKvHeads;
  args.head_dim = head_dim;
  args.positions = positions.data();
  args.seqs = seqs.data();
  args.cos_sin = cos_sin.data();
  args.q_out_stride = kHeads * head_dim;
  args.kv.k = k.data();
  args.kv.v = v.data();
  args.kv.dtype = std::is_same_v<Kv, float> ? DType::f32 : DType::bf16;
  args.kv.head_stride = kSlots * head_dim;
  args.kv.slot_stride = head_dim;
  args.kv.region_offset = starts.data();
  launch_rope_append(args, q.data(), nullptr);
  std::vector<std::byte> bytes;
  const auto add = [&bytes](const auto& values) {
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    bytes.insert(bytes.end(), begin, begin + values.size() * sizeof(values[0]));
  };
  add(q.values());
  add(k.values());
  add(v.values());
  return bytes;
}

TEST(ThreadOrders, RotationAndAppend) {
  for (const std::int64_t head_dim : {136, 70}) {  // wide and narrow, several blocks a row
    expect_the_same_in_every_order([=] { return rotate_and_append<float, float>(head_dim); });
    expect_the_same_in_every_order([=] { return rotate_and_append<float, Bf16>(head_dim); });
    expect_the_same_in_every_order([=] { return rotate_and_append<Bf16, float>(head_dim); });
    expect_the_same_in_every_order([=] { return rotate_and_append<Bf16, Bf16>(head_dim); });
  }
}

}  // namespace
}  // namespace kvlab::cuda
