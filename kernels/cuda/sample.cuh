// The body of top-k, top-p and temperature sampling: a block takes a row of logits and finds three keys by radix
// selection, which no order of threads can change because everything that is added up is an integer.
#pragma once

#include <cstdint>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp_ops.cuh"
#include "kernels/random.h"
#include "kernels/sampling.h"

namespace kvlab::cuda {

constexpr int kSampleBlock = 512;
constexpr int kSampleWarps = kSampleBlock / kWarpSize;
constexpr int kDigitBits = 4;
constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits == kSampleWarps, "a warp adds up the sums of one digit");
constexpr int kIdBits = 20;
constexpr int kIdMask = (1 << kIdBits) - 1;
constexpr int kLogitBits = 32;

/// Sums of weights or counts, and keys: large when preferred.
using Sum = unsigned long long;

struct SampleStorage {
  SharedArray<Sum, kDigits * kSampleBlock> sums;  // [kDigits, kSampleBlock]: a column a thread, so no two share a word
  SharedArray<Sum, kDigits> totals;
  SharedArray<Sum, kSampleWarps> best;
  SharedArray<Sum, kSampleWarps> weights;
};

/// The rows of one launch, by value.
struct SampleRows {
  static constexpr int kMost = 64;
  RowSampling rows[kMost];
};

constexpr Sum kNotANumber = ~Sum{0};  // NaN or +inf: above every key

/// A finite logit and its id as one number of kLogitBits + kIdBits, unique in its row: larger for a larger logit, and
/// of equal ones for the lower id. 0 for -inf, which is never chosen.
KVLAB_DEVICE Sum sampling_key(float logit, int id) {
  const std::uint32_t bits = bits_of(logit + 0.0F);  // -0 is 0
  if (bits == 0xFF800000U) return 0;
  if ((bits & 0x7FFFFFFFU) >= 0x7F800000U) return kNotANumber;
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<Sum>(ordered) << kIdBits | static_cast<Sum>(kIdMask - id);
}
KVLAB_DEVICE int id_of_key(Sum key) { return kIdMask - static_cast<int>(key & kIdMask); }
KVLAB_DEVICE float logit_of_key(Sum key) {
  const auto ordered = static_cast<std::uint32_t>(key >> kIdBits);
  return float_from_bits((ordered & 0x80000000U) != 0 ? ordered & 0x7FFFFFFFU : ~ordered);
}

KVLAB_DEVICE Sum sum_of_warp(Sum value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) value += shuffle_xor(value, distance);
  return value;
}
KVLAB_DEVICE Sum largest_of_warp(Sum value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    const Sum other = shuffle_xor(value, distance);
    value = other > value ? other : value;
  }
  return value;
}

/// The ids of a row, and what the steps know about them.
struct SampleRow {
  Global<const float> logits;     // [n_choices]
  Global<std::uint64_t> weights;  // [n_choices], filled by weigh
  int n_choices;

  /// Calls visit(id, inside) for every id of this thread, and for as many ids past the end as keep the block together.
  template <typename Visit>
  KVLAB_DEVICE void for_own_ids(const Visit& visit) const {
    for (int first = 0; first < n_choices; first += kSampleBlock)
      visit(first + thread_x(), first + thread_x() < n_choices);
  }
  KVLAB_DEVICE Sum key(int id, bool inside) const {
    const float logit = load_global_constant_if(inside, logits + id, 0.0F);
    return inside ? sampling_key(logit, id) : 0;
  }
};

struct Selection {
  Sum key;
  Sum sum;  // of the measures of all keys from `key` up
};

/// The largest key K of `n_bits` bits such that the measures of all ids whose key is at least K add up to `wanted` or
/// more; 0 when all together do not. key_and_measure(id, inside, key, measure) gives both, the measure 0 outside.
/// Each step fixes the next kDigitBits of K: n_bits / kDigitBits readings of the row.
template <int n_bits, typename KeyAndMeasure>
KVLAB_DEVICE Selection select_key(SampleStorage& shared, const SampleRow& row, Sum wanted,
                                  const KeyAndMeasure& key_and_measure) {
  static_assert(n_bits % kDigitBits == 0);
  Sum found = 0;  // the digits of K so far
  Sum of_digit = 0;
  Sum reached = 0;  // the measures of all keys whose digits so far are above K's
  for (int shift = n_bits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int digit = 0; digit < kDigits; ++digit)
      store_shared(shared.sums.at(digit * kSampleBlock + thread_x()), Sum{0});
    row.for_own_ids([&](int id, bool inside) {
      Sum key = 0;
      Sum measure = 0;
      key_and_measure(id, inside, key, measure);
      const bool counts = measure != 0 && key >> shift >> kDigitBits == found;
      const auto digit = static_cast<int>(key >> shift & (kDigits - 1));
      const Shared<Sum> sum = shared.sums.at(digit * kSampleBlock + thread_x());
      store_shared_if(counts, sum, load_shared_if(counts, sum, Sum{0}) + measure);
    });
    block_barrier();
    Sum total = 0;  // of the digit that is this warp's number
    for (int first = 0; first < kSampleBlock; first += kWarpSize) {
      total += load_shared(shared.sums.at(warp_id() * kSampleBlock + first + lane_id()));
    }
    total = sum_of_warp(total);
    store_shared_if(lane_id() == 0, shared.totals.at(warp_id()), total);
    block_barrier();
    int digit = kDigits - 1;
    of_digit = load_shared(shared.totals.at(digit));
    while (digit > 0 && reached + of_digit < wanted) {
      reached += of_digit;
      of_digit = load_shared(shared.totals.at(--digit));
    }
    found = found << kDigitBits | static_cast<Sum>(digit);
  }
  return {found, reached + of_digit};
}

/// The largest key of the row: the greedy choice. kNotANumber when a logit is none, 0 when no logit is finite.
KVLAB_DEVICE Sum largest_key(SampleStorage& shared, const SampleRow& row) {
  Sum best = 0;
  row.for_own_ids([&](int id, bool inside) {
    const Sum key = row.key(id, inside);
    best = key > best ? key : best;
  });
  best = largest_of_warp(best);
  store_shared_if(lane_id() == 0, shared.best.at(warp_id()), best);
  block_barrier();
  return largest_of_warp(load_shared(shared.best.at(lane_id() % kSampleWarps)));
}

/// Writes the weight of every id whose key is at least `least_key`, 0 for the others; returns their sum.
KVLAB_DEVICE Sum weigh(SampleStorage& shared, const SampleRow& row, Sum least_key, float highest, double temperature) {
  Sum total = 0;
  row.for_own_ids([&](int id, bool inside) {
    const Sum key = row.key(id, inside);
    const bool kept = key != 0 && key >= least_key;
    const std::uint64_t weight = kept ? sampling_weight(logit_of_key(key), highest, temperature) : 0;
    store_global_if(inside, row.weights + id, weight);
    total += weight;
  });
  total = sum_of_warp(total);
  store_shared_if(lane_id() == 0, shared.weights.at(warp_id()), total);
  block_barrier();
  return sum_of_warp(load_shared_if(lane_id() < kSampleWarps, shared.weights.at(lane_id() % kSampleWarps), Sum{0}));
}

/// A draw among the weights that are left, those of keys below `least_key` apart; `total` is their sum.
KVLAB_DEVICE int drawn_id(SampleStorage& shared, const SampleRow& row, Sum least_key, Sum total, std::uint64_t draw) {
  const Sum point = drawn_below(total, draw);
  const Selection last =
      select_key<kIdBits>(shared, row, point + 1, [&](int id, bool inside, Sum& id_key, Sum& measure) {
        const Sum logit_key = row.key(id, inside);
        const std::uint64_t weight = load_global_if(inside, row.weights + id, 0);
        id_key = static_cast<Sum>(kIdMask - id);
        measure = logit_key >= least_key ? weight : 0;
      });
  return id_of_key(last.key);
}

constexpr int kKeyBits = kLogitBits + kIdBits;

/// The key of the k-th largest logit.
KVLAB_DEVICE Sum least_key_of_top_k(SampleStorage& shared, const SampleRow& row, std::int64_t k) {
  const auto count = [&](int id, bool inside, Sum& key, Sum& measure) {
    key = row.key(id, inside);
    measure = key != 0 ? 1 : 0;
  };
  return select_key<kKeyBits>(shared, row, static_cast<Sum>(k), count).key;
}

/// The last key of the shortest run from the largest down that weighs `wanted`, and what the run weighs.
KVLAB_DEVICE Selection select_top_p(SampleStorage& shared, const SampleRow& row, Sum wanted) {
  return select_key<kKeyBits>(shared, row, wanted, [&](int id, bool inside, Sum& key, Sum& measure) {
    key = row.key(id, inside);
    measure = load_global_if(inside, row.weights + id, 0);
  });
}

/// ids[r] = the choice of row r; see launch_sample for the rest.
/// Grid: n_rows blocks, at most SampleRows::kMost; block: kSampleBlock threads; shared: SampleStorage.
/// A greedy row is read once. Otherwise the logits are read 2 times, 13 more with top-k, and 5 more for the draw; the
/// weights are written once, and read 5 times. With top-p both are read 13 times more. All but the first come from L2.
KVLAB_KERNEL void sample_kernel(Global<const float> logits,  // [n_rows, n_choices], stride apart
                                std::int64_t stride, int n_choices, SampleRows sampled,
                                Global<std::uint64_t> weights,  // [n_rows, n_choices]
                                Global<std::int32_t> ids) {     // [n_rows]
  auto& shared = shared_storage<SampleStorage>();
  const SampleRow row{logits + block_x() * stride, weights + std::int64_t{block_x()} * n_choices, n_choices};
  const double temperature = sampled.rows[block_x()].settings.temperature;
  const std::int64_t top_k = sampled.rows[block_x()].settings.top_k;
  const double top_p = sampled.rows[block_x()].settings.top_p;
  const std::uint64_t state = sampled.rows[block_x()].state;
  wait_for_previous_launch();
  const Sum best = largest_key(shared, row);
  if (best == kNotANumber || best == 0 || temperature == 0.0) {
    const bool has_choice = best != kNotANumber && best != 0;
    store_global_if(thread_x() == 0, ids + block_x(), has_choice ? id_of_key(best) : kNoChoice);
    return;
  }
  const bool cuts = top_k > 0 && top_k < n_choices;
  Sum least_key = cuts ? least_key_of_top_k(shared, row, top_k) : 1;
  Sum total = weigh(shared, row, least_key, logit_of_key(best), temperature);
  if (top_p < 1.0) {
    const Selection kept = select_top_p(shared, row, wanted_weight(top_p, total));
    least_key = kept.key;
    total = kept.sum;
  }
  const int chosen = drawn_id(shared, row, least_key, total, scattered(state));
  store_global_if(thread_x() == 0, ids + block_x(), chosen);
}

}  // namespace kvlab::cuda
