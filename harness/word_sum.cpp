// Four sums side by side hide the latency of an addition. Compiled once per instruction set, picked at run time.
#include "harness/word_sum.h"

#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/word_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvlab {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

std::uint64_t sum(const std::uint64_t* words, std::int64_t n) {
  const hn::CappedTag<std::uint64_t, 16> tag;  // four vectors divide 64 words
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto a = hn::Zero(tag);
  auto b = hn::Zero(tag);
  auto c = hn::Zero(tag);
  auto d = hn::Zero(tag);
  for (std::int64_t i = 0; i < n; i += 4 * lanes) {
    a = hn::Add(a, hn::Load(tag, words + i));
    b = hn::Add(b, hn::Load(tag, words + i + lanes));
    c = hn::Add(c, hn::Load(tag, words + i + 2 * lanes));
    d = hn::Add(d, hn::Load(tag, words + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(tag, hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlab
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlab {

HWY_EXPORT(sum);

std::uint64_t sum_words(const std::uint64_t* words, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(sum)(words, n); }

}  // namespace kvlab
#endif
