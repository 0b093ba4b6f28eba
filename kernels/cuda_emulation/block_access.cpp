// Checks every access before it is made: inside its memory, aligned, and not ahead of the launch that it depends on.
#include <fmt/format.h>

#include <cstdint>

#include "kernels/cuda_emulation/block.h"

namespace kvlab::cuda::emulation {

namespace {

bool is_shared(AccessKind kind) {
  return kind == AccessKind::shared_load || kind == AccessKind::shared_store || kind == AccessKind::shared_atomic ||
         kind == AccessKind::copy_destination || kind == AccessKind::matrix_load;
}

bool is_write(AccessKind kind) { return kind == AccessKind::global_store || kind == AccessKind::global_atomic; }

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::global_load:
    case AccessKind::global_load_constant:
    case AccessKind::shared_load:
      return "reads";
    case AccessKind::global_store:
    case AccessKind::shared_store:
      return "writes";
    case AccessKind::global_atomic:
    case AccessKind::shared_atomic:
      return "updates";
    case AccessKind::copy_source:
      return "copies from";
    case AccessKind::copy_destination:
      return "copies to";
    case AccessKind::matrix_load:
      return "loads a matrix row of";
  }
  return "";
}

SharedRaces::Use use_of(AccessKind kind) {
  switch (kind) {
    case AccessKind::shared_store:
      return SharedRaces::Use::write;
    case AccessKind::shared_atomic:
      return SharedRaces::Use::atomic;
    case AccessKind::copy_destination:
      return SharedRaces::Use::begin_copy;
    default:
      return SharedRaces::Use::read;
  }
}

/// What the address must be a multiple of. A copy may read less than its 16 bytes.
int alignment_of(AccessKind kind, int bytes) { return kind == AccessKind::copy_source ? 16 : bytes; }

}  // namespace

void Block::check_shared(AccessKind kind, const void* address, int bytes, int line) {
  // Compared as numbers: the address may lie anywhere.
  const auto begin = reinterpret_cast<std::uintptr_t>(shared());
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto size = static_cast<std::uintptr_t>(bytes);
  if (shared() == nullptr || at < begin || at + size > begin + shape_.shared_bytes) {
    throw Fault(fmt::format("line {}: {} {} bytes at offset {} of shared memory, which has {} bytes", line, verb(kind),
                            bytes, static_cast<std::int64_t>(at - begin), shape_.shared_bytes));
  }
}

void Block::note_shared(SharedRaces::Use use, int thread, const void* address, int bytes, int line) {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - shared());
  try {
    device_.shared_races_.note(use, offset, static_cast<std::size_t>(bytes), thread, line);
  } catch (const SharedRace& race) {
    throw Fault(fmt::format("line {}: {} shared memory at offset {}: {}", line,
                            use == SharedRaces::Use::read ? "reads" : "writes", offset, race.what()));
  }
}

const Allocation& Block::check_global(AccessKind kind, const void* address, int bytes, int line) {
  Allocation* buffer = device_.find(address);
  const auto* at = static_cast<const std::byte*>(address);
  if (buffer == nullptr ||
      static_cast<std::size_t>(at - buffer->memory) + static_cast<std::size_t>(bytes) > buffer->bytes) {
    throw Fault(fmt::format("line {}: {} {} bytes outside device memory, {}", line, verb(kind), bytes,
                            device_.describe(address)));
  }
  const auto offset = static_cast<std::size_t>(at - buffer->memory);
  const auto n = static_cast<std::size_t>(bytes);
  if (shape_.overlaps_previous && !lane().waited_for_previous && buffer->written_before.any(offset, n)) {
    throw Fault(
        fmt::format("line {}: {} {} at byte {}, which the previous launch writes, before "
                    "wait_for_previous_launch",
                    line, verb(kind), buffer->name, offset));
  }
  if (kind == AccessKind::global_load_constant && buffer->written.any(offset, n)) {
    throw Fault(fmt::format("line {}: reads {} at byte {} as constant, but this launch has written it", line,
                            buffer->name, offset));
  }
  if (is_write(kind)) device_.note_write(*buffer, offset, n);
  return *buffer;
}

void Block::check_access(AccessKind kind, const void* address, int bytes, bool active, int line) {
  const int thread = lane().thread;
  LaneAccess entry;
  if (active) {
    const int alignment = alignment_of(kind, bytes);
    if (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(alignment) != 0) {
      throw Fault(fmt::format("line {}: {} {} bytes at an address that is no multiple of {}", line, verb(kind), bytes,
                              alignment));
    }
    entry.bytes = static_cast<std::uint8_t>(bytes);
    if (is_shared(kind)) {
      check_shared(kind, address, bytes, line);
      entry.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - shared());
      note_shared(use_of(kind), thread, address, bytes, line);
      // All lanes receive parts of the row. One more than the lane that points to it tells whoever wrote it apart.
      if (kind == AccessKind::matrix_load) note_shared(use_of(kind), thread ^ 1, address, bytes, line);
    } else {
      const Allocation& buffer = check_global(kind, address, bytes, line);
      entry.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - buffer.memory);
      entry.buffer = buffer.index;
    }
  }
  if (device_.options().counts) accesses_.add(kind, line, thread, entry);
}

}  // namespace kvlab::cuda::emulation
