// The plan of decode attention: every key once for every row, even shares, the same bits on host and device.
#include "kernels/cuda/decode_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cuda_emulation/device.h"
#include "kernels/cuda_emulation/runtime.h"
#include "tests/kernels/cuda/decode_step.h"

namespace kvlab::cuda {
namespace {

using test::DeviceArray;

struct PlanCase {
  std::vector<std::int32_t> kv_lens;
  std::int64_t n_workers;
  DecodeShape shape;  // n_seqs is set from kv_lens
};

DecodeShape shape_of(const PlanCase& c) {
  DecodeShape shape = c.shape;
  shape.n_seqs = static_cast<std::int64_t>(c.kv_lens.size());
  return shape;
}

std::vector<PlanCase> plan_cases() {
  const DecodeShape cores{0, 2, 2, 128, 0, DType::f32};       // tiles of 16 keys
  const DecodeShape tensor{0, 80, 2, 256, 0, DType::bf16};    // tiles of 32 keys, 3 passes
  const DecodeShape windowed{0, 8, 2, 64, 100, DType::bf16};  // tiles of 128 keys
  std::vector<PlanCase> cases;
  for (const DecodeShape& shape : {cores, tensor, windowed}) {
    for (const std::int64_t n_workers : {1, 2, 6, 7, 64, 396}) {
      cases.push_back({{1}, n_workers, shape});
      cases.push_back({{0}, n_workers, shape});
      cases.push_back({{15, 16, 17, 31, 32, 33, 127, 128, 129}, n_workers, shape});
      cases.push_back({{0, 5000, 0, 0, 3, 997, 0}, n_workers, shape});
      cases.push_back({std::vector<std::int32_t>(300, 41), n_workers, shape});
    }
  }
  return cases;
}

/// How often each key of each row is taken, walking the runs as a block does: counts[seq][row][key].
using Counts = std::vector<std::vector<std::vector<int>>>;
Counts walk(const PlanCase& c, const DecodePlan& plan, std::int32_t* n_parts) {
  const DecodeKernel kernel = decode_kernel(shape_of(c));
  Counts counts;
  for (const std::int32_t kv_len : c.kv_lens) {
    counts.emplace_back(kernel.n_rows, std::vector<int>(static_cast<std::size_t>(kv_len), 0));
  }
  std::vector<int> slots(static_cast<std::size_t>(2 * c.n_workers), 0);
  for (std::int32_t worker = 0; worker < c.n_workers; ++worker) {
    DecodeRun run = plan.runs[static_cast<std::size_t>(worker)];
    while (run.n_tiles > 0) {
      const auto seq = static_cast<std::size_t>(run.seq);
      const DecodePart part = decode_part(plan.sequences[seq], run, kernel.tile_keys);
      for (std::int32_t key = part.first_key; key < part.end_key; ++key) {
        ++counts[seq][static_cast<std::size_t>(run.row)][static_cast<std::size_t>(key)];
      }
      *n_parts += part.end_key > part.first_key ? 1 : 0;
      if (!part.is_whole()) ++slots[static_cast<std::size_t>(decode_part_slot(worker, part.begins_row))];
      run = decode_rest(run, plan.sequences[seq], kernel.n_rows, kernel.tile_keys);
    }
  }
  EXPECT_LE(*std::max_element(slots.begin(), slots.end()), 1) << "two parts in one slot of the workspace";
  return counts;
}

TEST(CudaDecodePlan, TakesEveryVisibleKeyOnceForEveryRow) {
  for (const PlanCase& c : plan_cases()) {
    const DecodePlan plan = decode_plan(shape_of(c), c.n_workers, test::spans_of(c.kv_lens));
    std::int32_t n_parts = 0;
    const Counts counts = walk(c, plan, &n_parts);
    std::int64_t n_keys = 0;
    std::int32_t n_rows_with_keys = 0;
    for (std::size_t seq = 0; seq < counts.size(); ++seq) {
      const auto window = static_cast<std::size_t>(c.shape.window);
      const std::size_t kv_len = counts[seq][0].size();
      const std::size_t first = window > 0 && kv_len > window ? kv_len - window : 0;
      for (const auto& row : counts[seq]) {
        for (std::size_t key = 0; key < kv_len; ++key) {
          ASSERT_EQ(row[key], key >= first ? 1 : 0) << "sequence " << seq << ", key " << key;
        }
        n_keys += static_cast<std::int64_t>(kv_len - first);
        n_rows_with_keys += kv_len > 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(n_keys * c.shape.head_dim * static_cast<std::int64_t>(dtype_bytes(c.shape.dtype)),
              decode_k_bytes(shape_of(c), test::spans_of(c.kv_lens)));
    EXPECT_LE(n_parts, c.n_workers + n_rows_with_keys) << "each worker but the first splits one row at most";
  }
}

TEST(CudaDecodePlan, SharesAreEvenToOneTile) {
  for (const PlanCase& c : plan_cases()) {
    const DecodePlan plan = decode_plan(shape_of(c), c.n_workers, test::spans_of(c.kv_lens));
    std::int32_t least = plan.totals.n_tiles;
    std::int32_t most = 0;
    std::int32_t sum = 0;
    for (const DecodeRun& run : plan.runs) {
      least = std::min(least, run.n_tiles);
      most = std::max(most, run.n_tiles);
      sum += run.n_tiles;
    }
    EXPECT_LE(most - least, 1);
    EXPECT_EQ(sum, plan.totals.n_tiles);
  }
}

TEST(CudaDecodePlan, WorkersAndTilesFindEachOther) {
  for (const std::int32_t n_tiles : {1, 2, 6, 7, 100, 101}) {
    for (const std::int32_t n_workers : {1, 6, 7, 200}) {
      const DecodeTotals totals = decode_totals(n_tiles, n_workers);
      std::int32_t next = 0;
      for (std::int32_t worker = 0; worker < totals.n_busy; ++worker) {
        EXPECT_EQ(first_tile_of_worker(totals, worker), next);
        EXPECT_EQ(first_worker_from(totals, next), worker);
        for (; next < first_tile_of_worker(totals, worker + 1); ++next) EXPECT_EQ(worker_of_tile(totals, next), worker);
      }
      EXPECT_EQ(next, n_tiles);
      EXPECT_EQ(first_worker_from(totals, n_tiles), totals.n_busy);
    }
  }
}

/// The bytes that the device must write.
std::vector<unsigned char> bytes_of(const DecodePlan& plan) {
  std::vector<unsigned char> bytes;
  const auto add = [&](const void* from, std::size_t n) {
    const auto* begin = static_cast<const unsigned char*>(from);
    bytes.insert(bytes.end(), begin, begin + n);
  };
  add(&plan.totals, sizeof(DecodeTotals));
  add(plan.sequences.data(), plan.sequences.size() * sizeof(DecodeSequence));
  add(plan.runs.data(), plan.runs.size() * sizeof(DecodeRun));
  return bytes;
}

TEST(CudaDecodePlan, TheDeviceMakesTheHostsPlan) {
  std::uint64_t seed = 0;
  for (const PlanCase& c : plan_cases()) {
    const emulation::Device device({.seed = seed++, .counts = false});
    const DecodeShape shape = shape_of(c);
    const auto spans = test::spans_of(c.kv_lens);
    const DeviceArray<SequenceSpan> device_spans("spans", spans);
    const DeviceArray<unsigned char> plan("plan", decode_plan_bytes(shape, c.n_workers));
    launch_decode_plan(shape, c.n_workers, device_spans.data(), plan.data(), nullptr);
    EXPECT_EQ(plan.values(), bytes_of(decode_plan(shape, c.n_workers, spans)))
        << c.kv_lens.size() << " sequences, " << c.n_workers << " workers";
  }
}

TEST(CudaDecodePlan, AnEmptyBatchHasAPlan) {
  const emulation::Device device({.counts = false});
  const DecodeShape shape{0, 8, 2, 64, 0, DType::bf16};
  const DeviceArray<unsigned char> plan("plan", decode_plan_bytes(shape, 3));
  launch_decode_plan(shape, 3, nullptr, plan.data(), nullptr);
  EXPECT_EQ(plan.values(), bytes_of(decode_plan(shape, 3, {})));
}

TEST(CudaDecodePlan, TheEmulatedDeviceHasAFewWorkers) {
  emulation::Device device;
  const auto runtime = emulation::make_emulated_runtime(device);
  const DecodeShape shape{4, 32, 8, 128, 0, DType::bf16};
  EXPECT_EQ(decode_workers(runtime->n_multiprocessors(), decode_blocks_per_multiprocessor(shape)), 6);
  EXPECT_EQ(decode_workers(0, 3), 1);
  EXPECT_EQ(decode_workers(132, 2), 264);
}

TEST(CudaDecodePlan, ChoosesTheKernelByTypeAndGroup) {
  const auto kernel_of = [](std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t head_dim, DType dtype) {
    return decode_kernel({1, n_heads, n_kv_heads, head_dim, 0, dtype});
  };
  EXPECT_EQ(kernel_of(32, 8, 128, DType::bf16).path, DecodePath::tensor_cores);
  EXPECT_EQ(kernel_of(32, 8, 128, DType::bf16).n_passes, 1);
  EXPECT_EQ(kernel_of(17, 1, 128, DType::bf16).n_passes, 2);
  EXPECT_EQ(kernel_of(32, 8, 72, DType::bf16).instance_dim, 96);
  EXPECT_EQ(kernel_of(32, 8, 104, DType::bf16).instance_dim, 128);
  EXPECT_EQ(kernel_of(9, 3, 64, DType::bf16).path, DecodePath::cuda_cores);
  EXPECT_EQ(kernel_of(9, 3, 64, DType::bf16).heads_per_pass, 4);
  EXPECT_EQ(kernel_of(32, 8, 96, DType::f32).path, DecodePath::cuda_cores);
  EXPECT_EQ(kernel_of(32, 8, 96, DType::f32).instance_dim, 128);
  EXPECT_EQ(kernel_of(32, 4, 64, DType::f32).n_passes, 2);
}

TEST(CudaDecodePlan, NamesWhatItCannotRun) {
  for (const std::int64_t head_dim : {0, 4, 12, 264}) {
    EXPECT_THROW(decode_kernel({1, 32, 8, head_dim, 0, DType::bf16}), InputError);
  }
  EXPECT_THROW(decode_kernel({1, 32, 5, 64, 0, DType::bf16}), InputError);
  EXPECT_THROW(decode_kernel({-1, 32, 8, 64, 0, DType::bf16}), InputError);
  EXPECT_THROW(decode_kernel({1, 32, 8, 64, -1, DType::bf16}), InputError);
  EXPECT_THROW(decode_kernel({65535, 512, 8, 64, 0, DType::bf16}), InputError);
  const emulation::Device device;
  EXPECT_THROW(launch_decode_plan({1, 32, 8, 64, 0, DType::bf16}, 0, nullptr, nullptr, nullptr), InputError);
  const std::int32_t entry = 0;
  KvView kv;
  kv.page_table = &entry;
  kv.page_size = 16;
  kv.pages_per_seq = 1;
  EXPECT_NO_THROW(check_decode_spans(kv, test::spans_of({16})));
  EXPECT_THROW(check_decode_spans(kv, test::spans_of({1, 17})), InputError);
  EXPECT_THROW(check_decode_spans(kv, std::vector<SequenceSpan>{{0, 2, 5}}), InputError);
}

}  // namespace
}  // namespace kvlab::cuda
