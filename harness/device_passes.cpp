#include "harness/device_passes.h"

#include <chrono>
#include <limits>
#include <numeric>

#include "kernels/random.h"

namespace kvlab {
namespace {

/// Device seconds of `pass`; nothing without a clock.
std::optional<double> device_s(Operations& ops, const std::function<void()>& pass) {
  const std::unique_ptr<TimeMark> before = ops.mark();
  pass();
  return ops.mark()->since_s(*before);
}

constexpr std::int64_t kChunkBytes = 32;  // two of the 16 bytes that probes move, one for each half of a copy

}  // namespace

double fastest_device_s(Operations& ops, int n_passes, const std::function<void()>& pass) {
  std::optional<double> fastest = device_s(ops, pass);
  if (!fastest) return 0;
  fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < n_passes; ++i) fastest = std::min(*fastest, device_s(ops, pass).value());
  return *fastest;
}

std::unique_ptr<RecordedGraph> recorded(Operations& ops, const std::function<void()>& issue) {
  ops.begin_step();
  ops.begin_recording();
  issue();
  std::unique_ptr<RecordedGraph> graph = ops.end_recording();
  graph->run();
  return graph;
}

std::int64_t arena_bytes(const DeviceProbes& device, const DeviceLimits& limits) {
  const std::int64_t wanted = std::max(limits.most_bytes, 8 * device.l2_bytes());
  const std::int64_t allowed = device.free_bytes() / 4;
  return std::max(limits.least_bytes, std::min(wanted, allowed)) / kChunkBytes * kChunkBytes;
}

std::int64_t side_that_fits(const DeviceProbes& device, std::int64_t side) {
  constexpr std::int64_t kLeastSide = 16;
  constexpr std::int64_t kSquares = 4;  // the weight, x, the table that x is drawn from, y
  const std::int64_t allowed = device.free_bytes() / 2;
  while (side > kLeastSide && kSquares * side * side * static_cast<std::int64_t>(sizeof(float)) > allowed) side /= 2;
  return side;
}

DeviceArena::DeviceArena(Operations& ops, const DeviceLimits& limits)
    : ops_(ops),
      probes_(*ops.probes()),
      limits_(limits),
      memory_(ops.allocate(static_cast<std::size_t>(arena_bytes(probes_, limits)))) {}

void DeviceArena::read(std::int64_t first, std::int64_t set_bytes, std::int64_t n_passes) const {
  probes_.read(static_cast<const std::byte*>(memory_->data()) + first, static_cast<std::size_t>(set_bytes), n_passes);
}

void DeviceArena::write(std::int64_t first, std::int64_t set_bytes, std::int64_t n_passes) const {
  probes_.write(static_cast<std::byte*>(memory_->data()) + first, static_cast<std::size_t>(set_bytes), n_passes);
}

void DeviceArena::copy(std::int64_t first, std::int64_t set_bytes, std::int64_t n_passes) const {
  std::byte* from = static_cast<std::byte*>(memory_->data()) + first;
  probes_.copy(from + set_bytes / 2, from, static_cast<std::size_t>(set_bytes / 2), n_passes);
}

StreamRates DeviceArena::warm(std::int64_t set_bytes) const {
  const std::int64_t n_passes = std::max<std::int64_t>(1, limits_.pass_bytes / set_bytes);
  const auto rate_of = [&](auto pass) {
    const double seconds = fastest_device_s(ops_, limits_.n_passes, [&] { (this->*pass)(0, set_bytes, n_passes); });
    return rate(static_cast<double>(set_bytes * n_passes), seconds);
  };
  return {rate_of(&DeviceArena::read), rate_of(&DeviceArena::write), rate_of(&DeviceArena::copy)};
}

StreamRates DeviceArena::cold(std::int64_t set_bytes) const {
  const std::int64_t n_sets = bytes() / set_bytes;
  const auto rate_of = [&](auto pass) {
    const auto graph = recorded(ops_, [&] {
      for (std::int64_t set = 0; set < n_sets; ++set) (this->*pass)(set * set_bytes, set_bytes, 1);
    });
    const double seconds = fastest_device_s(ops_, limits_.n_passes, [&] { graph->run(); });
    return rate(static_cast<double>(set_bytes * n_sets), seconds);
  };
  return {rate_of(&DeviceArena::read), rate_of(&DeviceArena::write), rate_of(&DeviceArena::copy)};
}

DeviceProducts::DeviceProducts(Operations& ops, DType dtype, std::int64_t side, std::int64_t most_rows, Weights weights)
    : ops_(ops), dtype_(dtype), side_(side) {
  const RandomRows of_weight{{1, 0.0, 0.02}, side};
  const RandomRows of_x{{2, 0.0, 1.0}, most_rows};
  const auto square_bytes = static_cast<std::size_t>(most_rows * side) * sizeof(float);
  x_ = ops.allocate(square_bytes);
  y_ = ops.allocate(square_bytes);
  {
    const std::unique_ptr<PackedMatrix> rows = ops.pack_random_table({&of_x, 1}, side, DType::f32);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(most_rows));
    std::iota(ids.begin(), ids.end(), 0);
    ops.begin_step();
    ops.embed(*rows, ids, static_cast<float*>(x_->data()), false);
    ops.begin_step();  // the ids are gone after this
  }
  const std::int64_t weight_bytes = side * side * static_cast<std::int64_t>(dtype_bytes(dtype));
  const DeviceProbes& device = *ops.probes();
  const std::int64_t wanted = weights == Weights::one ? 1 : 3 * device.l2_bytes() / weight_bytes + 1;
  const std::int64_t allowed = std::max<std::int64_t>(1, device.free_bytes() / 2 / weight_bytes);
  for (std::int64_t i = 0; i < std::min(wanted, allowed); ++i) {
    weights_.push_back(ops.pack_random_matrix({&of_weight, 1}, side, dtype));
  }
}

ProductRow DeviceProducts::measure(std::int64_t n_rows, int n_products, int n_passes) {
  const std::size_t n = std::max(weights_.size(), static_cast<std::size_t>(n_products));
  const auto graph = recorded(ops_, [&] {
    for (std::size_t i = 0; i < n; ++i) {
      ops_.matmul(*weights_[i % weights_.size()], static_cast<const float*>(x_->data()), side_, n_rows,
                  static_cast<float*>(y_->data()), side_, nullptr, false);
    }
  });
  const double seconds = fastest_device_s(ops_, n_passes, [&] { graph->run(); }) / static_cast<double>(n);
  const auto values = static_cast<double>(side_ * side_);
  return {dtype_, n_rows, rate(2 * values * static_cast<double>(n_rows), seconds),
          rate(values * static_cast<double>(dtype_bytes(dtype_)), seconds)};
}

namespace {

/// By the host's clock, which only counts where the device has one too.
double round_trip_s(Operations& ops, int n_passes) {
  using Clock = std::chrono::steady_clock;
  double fastest_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < n_passes; ++i) {
    const auto begin = Clock::now();
    if (!device_s(ops, [&] { ops.probes()->nothing(); })) return 0;
    fastest_s = std::min(fastest_s, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return fastest_s;
}

}  // namespace

LaunchTimes measure_launches(Operations& ops, const DeviceLimits& limits) {
  const auto launches = [&] {
    for (int i = 0; i < limits.n_launches; ++i) ops.probes()->nothing();
  };
  const auto events = [&] {
    for (int i = 0; i < limits.n_launches; ++i) ops.mark();
  };
  const auto n = static_cast<double>(limits.n_launches);
  const auto graph = recorded(ops, launches);
  LaunchTimes times;
  times.eager_s = fastest_device_s(ops, limits.n_passes, launches) / n;
  times.graph_s = fastest_device_s(ops, limits.n_passes, [&] { graph->run(); }) / n;
  times.event_s = fastest_device_s(ops, limits.n_passes, events) / n;
  times.round_trip_s = round_trip_s(ops, limits.n_launches);
  return times;
}

}  // namespace kvlab
