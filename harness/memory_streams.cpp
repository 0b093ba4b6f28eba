// The three passes and their parallel region.
#include "harness/memory_streams.h"

#include <omp.h>

#include <atomic>
#include <cstring>

#include "harness/word_sum.h"

namespace kvlab {
namespace {

constexpr std::align_val_t kPage{4096};
constexpr std::int64_t kWord = 8;
constexpr std::int64_t kPart = 1024;                              // two blocks of 64 words, one for each half of a copy
constexpr std::int64_t kLeastPassBytes = std::int64_t{32} << 20;  // a thread; a fraction of a millisecond in L1

}  // namespace

void MemoryStreams::Freed::operator()(std::uint64_t* words) const { ::operator delete[](words, kPage); }

MemoryStreams::MemoryStreams(std::int64_t working_set_bytes, int threads)
    : bytes_a_thread_(std::max(working_set_bytes / threads, kLeastBytesAThread) / kPart * kPart),
      threads_(threads),
      repeats_(std::max<std::int64_t>(1, kLeastPassBytes / bytes_a_thread_)),
      words_(static_cast<std::uint64_t*>(::operator new[](static_cast<std::size_t>(bytes_a_thread_* threads), kPage))) {
#pragma omp parallel num_threads(threads_)
  std::memset(words_.get() + omp_get_thread_num() * (bytes_a_thread_ / kWord), 1,
              static_cast<std::size_t>(bytes_a_thread_));
}

/// part(its words, repeat) on every thread, `repeats_` times.
template <typename Part>
double MemoryStreams::seconds_of_a_pass(double budget_s, Part part) {
  const double seconds = fastest_seconds(budget_s, [&] {
#pragma omp parallel num_threads(threads_)
    {
      std::uint64_t* mine = words_.get() + omp_get_thread_num() * (bytes_a_thread_ / kWord);
      for (std::int64_t repeat = 0; repeat < repeats_; ++repeat) {
        part(mine, repeat);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the compiler from merging repeats
      }
    }
  });
  return seconds / static_cast<double>(repeats_);
}

StreamRates MemoryStreams::measure(double budget_s) {
  const std::int64_t n_words = bytes_a_thread_ / kWord;
  const auto n_bytes = static_cast<std::size_t>(bytes_a_thread_);
  // The sum is not used: it comes from a function that the compiler does not see into.
  const double read_s = seconds_of_a_pass(
      budget_s / 3, [=](const std::uint64_t* mine, std::int64_t) { static_cast<void>(sum_words(mine, n_words)); });
  const double copy_s = seconds_of_a_pass(
      budget_s / 3, [=](std::uint64_t* mine, std::int64_t) { std::memcpy(mine, mine + n_words / 2, n_bytes / 2); });
  const double write_s = seconds_of_a_pass(budget_s / 3, [=](std::uint64_t* mine, std::int64_t repeat) {
    std::memset(mine, static_cast<int>(repeat & 0xff), n_bytes);
  });
  const auto bytes = static_cast<double>(working_set_bytes());
  return {bytes / read_s, bytes / write_s, bytes / copy_s};
}

}  // namespace kvlab
