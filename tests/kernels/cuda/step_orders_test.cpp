// Every instance of the kernels around a cache and between products, in eight orders of threads. What they compute is
// checked in append_test.cpp and step_rows_test.cpp; here nothing may depend on who comes first.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/memory_passes.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/thread_orders.h"

namespace kvlab::cuda {
namespace {

using kvlab::test::random_values;
using test::expect_the_same_in_every_order;

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kKvHeads = 2;
/// Head sizes of the wide and of the narrow instances.
const std::vector<std::int64_t> kHeadDims = {136, 70};

/// Regions of kRows slots for one sequence.
template <typename T>
struct Regions {
  explicit Regions(std::int64_t head_dim)
      : k("k", std::vector<T>(static_cast<std::size_t>(kKvHeads * kRows * head_dim))),
        v("v", std::vector<T>(static_cast<std::size_t>(kKvHeads * kRows * head_dim))),
        starts("starts", std::vector<std::int64_t>{0}) {
    view.k = k.data();
    view.v = v.data();
    view.dtype = std::is_same_v<T, float> ? DType::f32 : DType::bf16;
    view.head_stride = kRows * head_dim;
    view.slot_stride = head_dim;
    view.region_offset = starts.data();
  }
  test::DeviceArray<T> k, v;
  test::DeviceArray<std::int64_t> starts;
  KvView view;
};

/// K of `kRows` appended rows, collected again.
template <typename T>
std::vector<T> append_and_collect(std::int64_t head_dim) {
  const Regions<T> regions(head_dim);
  const std::int64_t width = kKvHeads * head_dim;
  const test::DeviceArray<float> rows("rows", random_values(kRows * width, 1));
  const test::DeviceArray<SequenceSpan> seqs("seqs", std::vector<SequenceSpan>{{0, kRows, kRows}});
  AppendRows args;
  args.k = rows.data();
  args.v = rows.data();
  args.stride = width;
  args.seqs = seqs.data();
  args.n_seqs = 1;
  args.max_queries = kRows;
  args.n_kv_heads = kKvHeads;
  args.head_dim = head_dim;
  args.kv = regions.view;
  launch_append(args, nullptr);
  const test::DeviceArray<T> out("out", static_cast<std::size_t>(kRows * width));
  launch_collect_kv(regions.view, regions.k.data(), 0, kKvHeads, kRows, head_dim, out.data(), nullptr);
  return out.values();
}

TEST(ThreadOrders, AppendAndCollect) {
  for (const std::int64_t head_dim : kHeadDims) {
    expect_the_same_in_every_order([=] { return append_and_collect<float>(head_dim); });
    expect_the_same_in_every_order([=] { return append_and_collect<Bf16>(head_dim); });
  }
  expect_the_same_in_every_order([] { return append_and_collect<Bf16>(35); });  // rows of no whole word
}

template <typename Out>
void copies_in_every_order(std::int64_t width) {
  expect_the_same_in_every_order([width] {
    const test::DeviceArray<float> x("x", random_values(kRows * width, 1));
    const test::DeviceArray<std::int64_t> rows("rows", std::vector<std::int64_t>{2, 0, 2});
    const test::DeviceArray<Out> out("out", static_cast<std::size_t>(kRows * width));
    launch_copy_rows(x.data(), width, rows.data(), kRows, width, out.data(), width, nullptr);
    return out.values();
  });
}

TEST(ThreadOrders, Copies) {
  for (const std::int64_t width : {1028, 1027}) {
    copies_in_every_order<float>(width);
    copies_in_every_order<Bf16>(width);
  }
}

TEST(ThreadOrders, Rotation) {
  for (const std::int64_t head_dim : kHeadDims) {
    expect_the_same_in_every_order([head_dim] {
      const test::DeviceArray<float> x("x", random_values(kRows * kKvHeads * head_dim, 1));
      const test::DeviceArray<float> cos_sin("cos_sin", random_values(kRows * head_dim, 2));
      const test::DeviceArray<std::int32_t> positions("positions", std::vector<std::int32_t>{2, 0, 1});
      launch_rope(x.data(), kKvHeads * head_dim, kRows, kKvHeads, head_dim, positions.data(), cos_sin.data(), nullptr);
      return x.values();
    });
  }
}

TEST(ThreadOrders, GeluAndReading) {
  expect_the_same_in_every_order([] {
    const test::DeviceArray<float> x("x", random_values(1031, 1));
    launch_gelu(x.data(), 1031, nullptr);
    return x.values();
  });
  expect_the_same_in_every_order([] {
    const test::DeviceArray<float> memory("memory", random_values(4096, 1));
    const test::DeviceArray<std::uint32_t> sums("sums", static_cast<std::size_t>(read_pass_sums(2)));
    launch_read_passes(memory.data(), 4096 * sizeof(float), 3, 2, sums.data(), nullptr);
    return sums.values();
  });
}

}  // namespace
}  // namespace kvlab::cuda
