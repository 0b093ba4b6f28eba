// What crossed between host and device.
#pragma once

#include <cstdint>

namespace kvlab {

/// Copies between host and device memory since a backend was made; none where both are one.
struct Transfers {
  std::int64_t n_to_device = 0;
  std::int64_t n_to_host = 0;
  std::int64_t to_device_bytes = 0;
  std::int64_t to_host_bytes = 0;

  bool operator==(const Transfers&) const = default;
  Transfers operator-(const Transfers& earlier) const {
    return {n_to_device - earlier.n_to_device, n_to_host - earlier.n_to_host, to_device_bytes - earlier.to_device_bytes,
            to_host_bytes - earlier.to_host_bytes};
  }
};

}  // namespace kvlab
