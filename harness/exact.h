// A 64-bit count that refuses to wrap: sums and products that do not fit throw instead of giving a wrong number.
#pragma once

#include <cstdint>

#include "kernels/error.h"

namespace kvlab {

class Exact {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a plain count is an exact count.
  constexpr Exact(std::int64_t value) : value_(value) {}
  constexpr std::int64_t value() const { return value_; }

  friend Exact operator+(Exact a, Exact b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &sum)) refuse();
    return sum;
  }
  friend Exact operator*(Exact a, Exact b) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a.value_, b.value_, &product)) refuse();
    return product;
  }
  Exact& operator+=(Exact other) { return *this = *this + other; }

 private:
  [[noreturn]] static void refuse() {
    throw InputError("the work of this workload does not fit a 64-bit count; ask for fewer tokens or sequences");
  }

  std::int64_t value_;
};

}  // namespace kvlab
