// Where the device's view of a cache finds its rows: against kv_offset of kernels/views.h, and beyond 2^31 elements.
#include "kernels/cuda/kv_view.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda_emulation/device.h"
#include "tests/kernels/cuda/device_array.h"

namespace kvlab::cuda {
namespace {

// out[pos] = the offset of (block's sequence, head 2, pos), one position a thread.
KVLAB_KERNEL void row_offsets_kernel(DeviceKvView<const float> view, int kv_len, Global<std::int64_t> out) {
  wait_for_previous_launch();
  const int pos = thread_x();
  if (pos >= kv_len) return;
  const KvSlot at = kv_slot(view, pos);
  const std::int64_t start = kv_page_start(view, block_x(), at.page);
  store_global(out + (block_x() * kv_len + pos), kv_row_offset(view, start, 2, at.slot));
}

std::vector<std::int64_t> device_offsets(const KvView& view, std::int64_t n_seqs, int kv_len) {
  const test::DeviceArray<std::int64_t> out("out", static_cast<std::size_t>(n_seqs * kv_len));
  launch("row_offsets", row_offsets_kernel, {n_seqs, 64}, nullptr, device_kv_view<const float>(view), kv_len,
         out.data());
  return out.values();
}

void expect_the_hosts_offsets(const std::vector<std::int64_t>& offsets, const KvView& view, int kv_len) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    EXPECT_EQ(offsets[i], kv_offset(view, at / kv_len, 2, at % kv_len)) << "position " << at;
  }
}

TEST(CudaKvView, PagesAtTheirEdges) {
  for (const std::int64_t page_size : {1, 8, 16, 64}) {
    for (const int kv_len : {1, 15, 16, 17, 33}) {
      const emulation::Device device({.seed = 3});
      const std::int64_t pages_per_seq = (kv_len + page_size - 1) / page_size;  // exact: one entry more would fault
      std::vector<std::int32_t> table;
      for (std::int64_t i = 0; i < 2 * pages_per_seq; ++i) table.push_back(static_cast<std::int32_t>(97 - i));
      const test::DeviceArray<std::int32_t> pages("page_table", table);
      KvView view;
      view.slot_stride = 24;
      view.head_stride = page_size * 24;
      view.page_stride = 3 * view.head_stride;
      view.page_size = page_size;
      view.page_table = pages.data();
      view.pages_per_seq = pages_per_seq;
      expect_the_hosts_offsets(device_offsets(view, 2, kv_len), view, kv_len);
    }
  }
}

TEST(CudaKvView, RegionsStartWhereTheySay) {
  const emulation::Device device({.seed = 4});
  const test::DeviceArray<std::int64_t> starts("region_start", std::vector<std::int64_t>{7'000'000'000, 48});
  KvView view;
  view.slot_stride = 24;
  view.head_stride = 33 * 24;
  view.region_offset = starts.data();
  expect_the_hosts_offsets(device_offsets(view, 2, 33), view, 33);
}

TEST(CudaKvView, OffsetsBeyondThirtyOneBits) {
  DeviceKvView<const float> view;
  view.slot_stride = 128;
  view.head_stride = std::int64_t{1} << 24;
  EXPECT_EQ(kv_row_offset(view, 0, 255, 7), 255 * (std::int64_t{1} << 24) + 7 * 128);
  EXPECT_EQ(kv_row_offset(view, std::int64_t{1} << 33, 0, 1 << 25), (std::int64_t{1} << 33) + (std::int64_t{1} << 32));
  const emulation::Device device;
  const test::DeviceArray<std::int32_t> pages("page_table", std::vector<std::int32_t>{2'000'000'000});
  KvView far;
  far.page_stride = 8 * 16 * 128;
  far.head_stride = 16 * 128;
  far.slot_stride = 128;
  far.page_size = 16;
  far.page_table = pages.data();
  far.pages_per_seq = 1;
  EXPECT_EQ(device_offsets(far, 1, 1)[0], 2'000'000'000 * (std::int64_t{8} * 16 * 128) + 2 * 16 * 128);
}

}  // namespace
}  // namespace kvlab::cuda
