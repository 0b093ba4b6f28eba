// What the wrappers in kernels/cuda call when a kernel body runs on the host: the one door into the emulator. Each
// function acts for the emulated thread that calls it, and throws when none runs. Values cross by copy, and no function
// touches the kernel's memory: the wrappers do, so that sanitizers see every access with its own thread and source
// line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvlab::cuda::emulation {

int thread_x();
int block_size_x();
int block_x();
int block_y();
int block_z();
int grid_size_x();
int grid_size_y();
int grid_size_z();

/// The block's shared memory; fails unless the launch asked for exactly `bytes`.
void* shared_memory(std::size_t bytes);

void block_barrier(int line);
void warp_barrier(std::uint32_t lanes, int line);

enum class AccessKind {
  global_load,
  global_load_constant,  // the kernel promises that nobody writes the bytes while it runs
  global_store,
  global_atomic,
  shared_load,
  shared_store,
  shared_atomic,
  copy_source,       // the global side of an asynchronous copy
  copy_destination,  // its shared side
  matrix_load        // ldmatrix: `lane` gives the address of one row of eight 2-byte values
};

/// Checks and counts one access of the calling thread, before the wrapper makes it. An inactive one (a predicate that
/// is off) only takes its place in the count of executions.
void access(AccessKind kind, const void* address, int bytes, bool active, int line);

/// A 16-byte asynchronous copy: the bytes that the wait will bring, and where to.
struct AsyncCopy {
  alignas(16) std::byte bytes[16];
  void* destination;
  int line;
};

void begin_copy(const AsyncCopy& copy);
void commit_copies();
/// Takes the next copy that has arrived once at most `n_pending_groups` groups may still be under way; false: none
/// left.
bool take_arrived_copy(int n_pending_groups, AsyncCopy* copy);

enum class Shuffle { index, exclusive_or, up, down };

/// The value of another lane of the same `width` lanes; `operand` is the index, mask or distance. Lanes whose source
/// lies outside their group keep their own value.
std::uint64_t shuffle(Shuffle kind, std::uint64_t bits, int operand, int width, std::uint32_t lanes, int line);
/// A bit for every lane of `lanes` whose predicate holds.
std::uint32_t ballot(bool predicate, std::uint32_t lanes, int line);

enum class Reduction { sum, maximum };

/// Reduces each of values[0..n) over aligned groups of `width` lanes, with the partners of a butterfly from width / 2
/// down to 1, in one rendezvous of the whole warp.
void reduce(Reduction kind, float* values, int n, int width, int line);

/// Gives every lane all 32 lanes' addresses.
void exchange_addresses(const void* mine, const void* (&all)[32], int line);

enum class MatrixType { bf16, f16 };

/// d += a b for the warp's 16 x 8 x 16 tile, fragments as PTX lays them out.
void multiply_matrices(MatrixType type, const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], float (&d)[4],
                       int line);

/// griddepcontrol.wait: from here on the thread may touch what the previous launch writes.
void wait_for_previous_launch();

}  // namespace kvlab::cuda::emulation
