// Launches sampling, in parts whose settings fit a launch's arguments.
#include <algorithm>
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sample.cuh"
#include "kernels/cuda/sample.h"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

void check(const SamplingSettings& settings, std::size_t row) {
  const bool has_temperature = settings.temperature >= 0.0 && !std::isinf(settings.temperature);
  if (has_temperature && settings.top_k >= 0 && settings.top_p >= 0.0 && settings.top_p <= 1.0) return;
  throw InputError("sample: row " + std::to_string(row) + " has temperature " + std::to_string(settings.temperature) +
                   ", top-k " + std::to_string(settings.top_k) + ", top-p " + std::to_string(settings.top_p) +
                   "; allowed are numbers of at least 0, and top-p of at most 1");
}

}  // namespace

void launch_sample(const float* logits, std::int64_t stride, std::int32_t n_choices, std::span<const RowSampling> rows,
                   void* scratch, std::int32_t* ids, CUstream_st* stream) {
  if (n_choices < 1 || n_choices > kMostChoices) {
    throw InputError("sample: " + std::to_string(n_choices) + " ids to choose from; allowed are 1 to " +
                     std::to_string(kMostChoices));
  }
  for (std::size_t row = 0; row < rows.size(); ++row) check(rows[row].settings, row);
  auto* weights = static_cast<std::uint64_t*>(scratch);
  for (std::size_t first = 0; first < rows.size(); first += SampleRows::kMost) {
    const std::size_t n = std::min<std::size_t>(SampleRows::kMost, rows.size() - first);
    SampleRows part;
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(first), n, part.rows);
    const LaunchShape shape{static_cast<std::int64_t>(n), kSampleBlock, 1, 1, sizeof(SampleStorage), true};
    launch("sample", sample_kernel, shape, stream, logits + static_cast<std::int64_t>(first) * stride, stride,
           n_choices, part, weights + first * static_cast<std::size_t>(n_choices), ids + first);
  }
}

}  // namespace kvlab::cuda
