// Counts what kernels access, by access site and by buffer: how many bytes, how well coalesced, how free of bank
// conflicts. The k-th execution of a site by each lane of a warp is one request, as it would be on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda_emulation/byte_set.h"
#include "kernels/cuda_emulation/hooks.h"

namespace kvlab::cuda::emulation {

struct AccessCounts {
  std::int64_t requests = 0;          // warp-wide, with at least one active lane
  std::int64_t lane_bytes = 0;        // bytes that active lanes asked for
  std::int64_t sectors = 0;           // global memory: 32-byte sectors that requests touched
  std::int64_t least_sectors = 0;     // ... and as many as their distinct bytes would fill
  std::int64_t wavefronts = 0;        // shared memory: passes over the 32 banks
  std::int64_t least_wavefronts = 0;  // ... and as many as without a conflict
  std::int64_t touched_bytes = 0;     // global memory: distinct bytes over all requests

  AccessCounts& operator+=(const AccessCounts& other);
};

/// An access site is a kernel's line and the kind of access; its counts are kept apart by buffer.
struct AccessSite {
  std::string kernel;
  AccessKind kind;
  int line;
  std::string buffer;  // the name it was allocated under; "shared" for shared memory

  auto operator<=>(const AccessSite&) const = default;
};

/// One lane's access. `offset` counts from the start of the buffer.
struct LaneAccess {
  std::uint64_t offset = 0;
  std::uint32_t buffer = 0;  // index into the names given to AccessLog::add_block
  std::uint8_t bytes = 0;    // 0: inactive
};

/// The accesses of one block, in the order in which each lane made them.
class BlockAccesses {
 public:
  explicit BlockAccesses(int block_size) : block_size_(block_size) {}
  void add(AccessKind kind, int line, int thread, LaneAccess access);

  struct Site {
    AccessKind kind;
    int line;
    std::vector<std::vector<LaneAccess>> by_thread;
  };
  const std::vector<Site>& sites() const { return sites_; }

 private:
  Site& site(AccessKind kind, int line);

  int block_size_;
  std::size_t last_ = 0;
  std::vector<Site> sites_;
};

class AccessLog {
 public:
  /// Adds a finished block. buffer_names[i] is the name of buffer i.
  void add_block(const std::string& kernel, const BlockAccesses& accesses,
                 const std::vector<std::string>& buffer_names);
  void clear() { sites_.clear(); }

  std::map<AccessSite, AccessCounts> by_site() const;
  /// The sum over all sites of these kinds that touch the buffer; touched bytes count once, however many sites.
  AccessCounts of_buffer(const std::string& buffer, std::initializer_list<AccessKind> kinds) const;
  /// Every read of global memory: loads of both sorts and sources of copies.
  AccessCounts reads_of(const std::string& buffer) const;
  AccessCounts writes_of(const std::string& buffer) const;
  /// Loads, stores, copies and matrix loads of shared memory, atomics aside.
  AccessCounts of_shared() const;

 private:
  struct Entry {
    AccessCounts counts;  // touched_bytes unused
    ByteSet touched;
  };
  void add_request(const std::string& kernel, const BlockAccesses::Site& site, const std::vector<LaneAccess>& lanes,
                   const std::vector<std::string>& buffer_names);

  std::map<AccessSite, Entry> sites_;
};

/// Distinct 32-byte sectors of the active lanes' accesses, which lie in one buffer, and the least possible.
void count_sectors(const std::vector<LaneAccess>& lanes, AccessCounts* counts);
/// Wavefronts of shared memory: 32, 16 or 8 lanes a phase for accesses of up to 4, 8 or 16 bytes, 32 banks of 4 bytes.
void count_wavefronts(const std::vector<LaneAccess>& lanes, AccessCounts* counts);

}  // namespace kvlab::cuda::emulation
