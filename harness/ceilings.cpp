// Measures memory bandwidth and matrix products with the threads, and the binding, that a run has.
#include "harness/ceilings.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>

#include "harness/machine.h"
#include "kernels/operations.h"

namespace kvlab {
namespace {

constexpr std::int64_t kWord = 8;
constexpr std::int64_t kSquare = 2048;  // side of the matrices
constexpr int kLeastPasses = 5;

/// Four times the last-level cache and at least 256 MiB, as far as an eighth of the free memory allows.
std::int64_t array_bytes() {
  const std::int64_t wanted = std::max<std::int64_t>(std::int64_t{256} << 20, 4 * last_level_cache_bytes());
  const std::int64_t allowed = read_machine().memory_available_bytes / 8;
  return allowed > 0 ? std::min(wanted, allowed) : wanted;
}

/// Seconds of the fastest `pass` of those that fit `budget_s`, after a warm-up: other programs can only slow one down.
template <typename Pass>
double fastest_seconds(double budget_s, Pass pass) {
  using Clock = std::chrono::steady_clock;
  pass();
  double fastest_s = std::numeric_limits<double>::infinity();
  int n_passes = 0;
  const auto begin = Clock::now();
  while (n_passes < kLeastPasses || std::chrono::duration<double>(Clock::now() - begin).count() < budget_s) {
    const auto start = Clock::now();
    pass();
    fastest_s = std::min(fastest_s, std::chrono::duration<double>(Clock::now() - start).count());
    ++n_passes;
  }
  return fastest_s;
}

/// Arrays whose pages each thread touches first where it will use them.
class Arrays {
 public:
  Arrays(std::int64_t n_words, int threads)
      : words_a_thread_(n_words / threads),
        threads_(threads),
        from_(new std::uint64_t[static_cast<std::size_t>(n_words)]),
        to_(new std::uint64_t[static_cast<std::size_t>(n_words)]) {
    for_each_part([](std::uint64_t* from, std::uint64_t* to, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) from[i] = to[i] = static_cast<std::uint64_t>(i);
    });
  }

  std::int64_t bytes() const { return words_a_thread_ * threads_ * kWord; }

  /// part(from, to, n_words) on every thread.
  template <typename Part>
  void for_each_part(Part part) {
#pragma omp parallel num_threads(threads_)
    {
      const std::int64_t begin = omp_get_thread_num() * words_a_thread_;
      part(from_.get() + begin, to_.get() + begin, words_a_thread_);
    }
  }

 private:
  std::int64_t words_a_thread_;
  int threads_;
  std::unique_ptr<std::uint64_t[]> from_;  // [n_words]
  std::unique_ptr<std::uint64_t[]> to_;    // [n_words]
};

/// Integers, because a compiler may reorder their sum and so use vectors.
std::uint64_t sum_words(const std::uint64_t* words, std::int64_t n) {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t d = 0;
  const std::int64_t quarter = n / 4;
  for (std::int64_t i = 0; i < quarter; ++i) {
    a += words[i];
    b += words[quarter + i];
    c += words[2 * quarter + i];
    d += words[3 * quarter + i];
  }
  return a + b + c + d;
}

void measure_memory(Ceilings& ceilings, int threads, double budget_s) {
  Arrays arrays(array_bytes() / kWord, threads);
  std::atomic<std::uint64_t> sink{0};  // so that the sums are not optimised away
  const double read_s = fastest_seconds(budget_s / 2, [&] {
    arrays.for_each_part([&](std::uint64_t* from, std::uint64_t*, std::int64_t n) { sink += sum_words(from, n); });
  });
  const double copy_s = fastest_seconds(budget_s / 2, [&] {
    arrays.for_each_part([](std::uint64_t* from, std::uint64_t* to, std::int64_t n) {
      std::memcpy(to, from, static_cast<std::size_t>(n * kWord));
    });
  });
  const auto bytes = static_cast<double>(arrays.bytes());
  ceilings.read_bytes_per_s = bytes / read_s;
  ceilings.copy_bytes_per_s = 2 * bytes / copy_s;
}

/// Values of order one that neither vanish nor repeat in a row.
HostMatrix varied_matrix(std::int64_t rows, std::int64_t cols) {
  HostMatrix matrix(rows, cols);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    matrix.values[static_cast<std::size_t>(i)] = static_cast<float>(i % 251 - 125) / 125.0F;
  }
  return matrix;
}

double gemm_flops_per_s(Operations& ops, DType storage, double budget_s) {
  const auto weight = ops.pack_matrix(varied_matrix(kSquare, kSquare), storage);
  const HostMatrix x = varied_matrix(kSquare, kSquare);
  HostMatrix y(kSquare, kSquare);
  const double seconds = fastest_seconds(budget_s, [&] {
    ops.matmul(*weight, x.values.data(), kSquare, kSquare, y.values.data(), kSquare, nullptr, false);
  });
  return 2.0 * static_cast<double>(kSquare * kSquare * kSquare) / seconds;
}

}  // namespace

Ceilings measure_ceilings(int threads, double budget_s) {
  Ceilings ceilings;
  measure_memory(ceilings, threads, budget_s / 2);
  const std::unique_ptr<Operations> ops = make_cpu_operations(threads);
  ceilings.gemm_flops_per_s_f32 = gemm_flops_per_s(*ops, DType::f32, budget_s / 4);
  ceilings.gemm_flops_per_s_bf16 = gemm_flops_per_s(*ops, DType::bf16, budget_s / 4);
  return ceilings;
}

}  // namespace kvlab
