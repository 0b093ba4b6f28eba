// Turns lanes' accesses into requests, sectors and wavefronts.
#include "kernels/cuda_emulation/access_log.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace kvlab::cuda::emulation {

namespace {

constexpr std::size_t kWarp = 32;
constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kBankBytes = 4;
constexpr std::size_t kBanks = 32;

bool is_shared(AccessKind kind) {
  return kind == AccessKind::shared_load || kind == AccessKind::shared_store || kind == AccessKind::shared_atomic ||
         kind == AccessKind::copy_destination || kind == AccessKind::matrix_load;
}

void sort_unique(std::vector<std::uint64_t>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

/// Distinct units of `unit` bytes that the accesses [begin, end) touch.
std::vector<std::uint64_t> distinct_units(const LaneAccess* begin, const LaneAccess* end, std::uint64_t unit) {
  std::vector<std::uint64_t> units;
  for (const LaneAccess* lane = begin; lane != end; ++lane) {
    if (lane->bytes == 0) continue;
    for (std::uint64_t at = lane->offset / unit; at <= (lane->offset + lane->bytes - 1) / unit; ++at) {
      units.push_back(at);
    }
  }
  sort_unique(&units);
  return units;
}

std::int64_t ceil_divide(std::size_t n, std::size_t by) { return static_cast<std::int64_t>((n + by - 1) / by); }

}  // namespace

AccessCounts& AccessCounts::operator+=(const AccessCounts& other) {
  requests += other.requests;
  lane_bytes += other.lane_bytes;
  sectors += other.sectors;
  least_sectors += other.least_sectors;
  wavefronts += other.wavefronts;
  least_wavefronts += other.least_wavefronts;
  touched_bytes += other.touched_bytes;
  return *this;
}

void count_sectors(const std::vector<LaneAccess>& lanes, AccessCounts* counts) {
  const LaneAccess* begin = lanes.data();
  const LaneAccess* end = begin + lanes.size();
  counts->sectors += static_cast<std::int64_t>(distinct_units(begin, end, kSectorBytes).size());
  counts->least_sectors += ceil_divide(distinct_units(begin, end, 1).size(), kSectorBytes);
}

void count_wavefronts(const std::vector<LaneAccess>& lanes, AccessCounts* counts) {
  std::uint8_t widest = 4;
  for (const LaneAccess& lane : lanes) widest = std::max(widest, lane.bytes);
  const std::size_t phase = kWarp * kBankBytes / widest;
  for (std::size_t first = 0; first < lanes.size(); first += phase) {
    const LaneAccess* begin = lanes.data() + first;
    const auto words = distinct_units(begin, begin + std::min(phase, lanes.size() - first), kBankBytes);
    std::array<std::int64_t, kBanks> words_of_bank{};
    for (const std::uint64_t word : words) ++words_of_bank[word % kBanks];
    counts->wavefronts += *std::max_element(words_of_bank.begin(), words_of_bank.end());
    counts->least_wavefronts += ceil_divide(words.size(), kBanks);
  }
}

BlockAccesses::Site& BlockAccesses::site(AccessKind kind, int line) {
  const auto matches = [&](const Site& site) { return site.kind == kind && site.line == line; };
  if (last_ < sites_.size() && matches(sites_[last_])) return sites_[last_];
  const auto found = std::find_if(sites_.begin(), sites_.end(), matches);
  last_ = static_cast<std::size_t>(found - sites_.begin());
  if (found == sites_.end()) {
    sites_.push_back({kind, line, std::vector<std::vector<LaneAccess>>(static_cast<std::size_t>(block_size_))});
  }
  return sites_[last_];
}

void BlockAccesses::add(AccessKind kind, int line, int thread, LaneAccess access) {
  site(kind, line).by_thread[static_cast<std::size_t>(thread)].push_back(access);
}

void AccessLog::add_request(const std::string& kernel, const BlockAccesses::Site& site,
                            const std::vector<LaneAccess>& lanes, const std::vector<std::string>& buffer_names) {
  const auto active = std::find_if(lanes.begin(), lanes.end(), [](const LaneAccess& lane) { return lane.bytes != 0; });
  if (active == lanes.end()) return;
  // Lanes of one request may point into different buffers; each buffer counts its own part.
  std::vector<LaneAccess> here = lanes;
  std::vector<LaneAccess> elsewhere;
  for (LaneAccess& lane : here) {
    if (lane.bytes == 0 || lane.buffer == active->buffer) continue;
    if (elsewhere.empty()) elsewhere.resize(lanes.size());
    elsewhere[static_cast<std::size_t>(&lane - here.data())] = lane;
    lane.bytes = 0;
  }
  Entry& entry = sites_[{kernel, site.kind, site.line, buffer_names[active->buffer]}];
  ++entry.counts.requests;
  for (const LaneAccess& lane : here) entry.counts.lane_bytes += lane.bytes;
  if (is_shared(site.kind)) {
    count_wavefronts(here, &entry.counts);
  } else {
    count_sectors(here, &entry.counts);
    for (const LaneAccess& lane : here) entry.touched.add(lane.offset, lane.bytes);
  }
  if (!elsewhere.empty()) add_request(kernel, site, elsewhere, buffer_names);
}

void AccessLog::add_block(const std::string& kernel, const BlockAccesses& accesses,
                          const std::vector<std::string>& buffer_names) {
  for (const BlockAccesses::Site& site : accesses.sites()) {
    for (std::size_t first = 0; first < site.by_thread.size(); first += kWarp) {
      const std::size_t n_lanes = std::min(kWarp, site.by_thread.size() - first);
      std::size_t n_executions = 0;
      for (std::size_t i = 0; i < n_lanes; ++i) n_executions = std::max(n_executions, site.by_thread[first + i].size());
      for (std::size_t k = 0; k < n_executions; ++k) {
        std::vector<LaneAccess> lanes(n_lanes);
        for (std::size_t i = 0; i < n_lanes; ++i) {
          if (const auto& mine = site.by_thread[first + i]; k < mine.size()) lanes[i] = mine[k];
        }
        add_request(kernel, site, lanes, buffer_names);
      }
    }
  }
}

std::map<AccessSite, AccessCounts> AccessLog::by_site() const {
  std::map<AccessSite, AccessCounts> result;
  for (const auto& [site, entry] : sites_) {
    result[site] = entry.counts;
    result[site].touched_bytes = entry.touched.count();
  }
  return result;
}

AccessCounts AccessLog::of_buffer(const std::string& buffer, std::initializer_list<AccessKind> kinds) const {
  AccessCounts sum;
  ByteSet touched;
  for (const auto& [site, entry] : sites_) {
    if (site.buffer != buffer || std::find(kinds.begin(), kinds.end(), site.kind) == kinds.end()) continue;
    sum += entry.counts;
    touched.add(entry.touched);
  }
  sum.touched_bytes = touched.count();
  return sum;
}

AccessCounts AccessLog::reads_of(const std::string& buffer) const {
  return of_buffer(buffer, {AccessKind::global_load, AccessKind::global_load_constant, AccessKind::copy_source});
}

AccessCounts AccessLog::writes_of(const std::string& buffer) const {
  return of_buffer(buffer, {AccessKind::global_store});
}

AccessCounts AccessLog::of_shared() const {
  return of_buffer("shared", {AccessKind::shared_load, AccessKind::shared_store, AccessKind::copy_destination,
                              AccessKind::matrix_load});
}

}  // namespace kvlab::cuda::emulation
