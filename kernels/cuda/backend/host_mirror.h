// What operations are told on the host (ids, positions, spans, tables), copied to where kernels can read it, by way of
// pinned memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/backend/device_context.h"
#include "kernels/cuda/backend/pinned_ring.h"
#include "kernels/views.h"

namespace kvlab::cuda {

/// Knows an array by its address: between two calls of `forget` (or of `upload`) its contents stay as they are. The
/// copies of one step share a few chunks of device memory, which are kept, so that a step of a known shape allocates
/// nothing; the host's side of a chunk is a ring, since the device may still read the piece of the step before.
class HostMirror {
 public:
  /// at_once: each array is uploaded when it is first asked for. together: `upload` brings all that were ever asked
  /// for, in one copy a chunk.
  enum class Uploads { at_once, together };

  HostMirror(DeviceContext& context, Uploads uploads) : context_(context), uploads_(uploads) {}
  /// Waits for the uploads that are under way.
  ~HostMirror();
  HostMirror(const HostMirror&) = delete;
  HostMirror& operator=(const HostMirror&) = delete;

  /// The device's copy of a host array; an array in a buffer is its own.
  template <typename T>
  const T* copy_of(std::span<const T> array) {
    if (context_.in_buffer(array.data())) return array.data();
    return static_cast<const T*>(place(array.data(), Form::as_it_is, array.size_bytes(), [array](std::byte* to) {
      std::copy_n(reinterpret_cast<const std::byte*>(array.data()), array.size_bytes(), to);
    }));
  }
  /// The view with device pointers, for `n_seqs` sequences.
  KvView copy_of(const KvView& view, std::size_t n_seqs);

  /// Whose row each row of the step is, as an index into `seqs`: [rows of all sequences].
  const std::int32_t* row_sequences(std::span<const SequenceSpan> seqs);
  /// Each query of one sequence as a sequence of its own, [n_queries].
  const SequenceSpan* row_spans(const SequenceSpan& seq);
  /// Where the region of sequence `seq` starts, once for each of its queries: [n_queries].
  const std::int64_t* row_regions(const SequenceSpan& span, const KvView& view, std::size_t seq);

  /// Arrays may have changed.
  void forget();
  void upload();

 private:
  enum class Form { as_it_is, row_sequences, row_spans, row_regions };
  using Fill = std::function<void(std::byte*)>;
  struct Array {
    const void* address;
    Form form;
    std::size_t bytes;
    std::size_t chunk;
    std::size_t offset;
    Fill fill;
  };
  struct Chunk {
    DeviceMemory device;
    PinnedRing ring;             // pieces as large as `device`
    std::byte* piece = nullptr;  // of this step; null: nothing was uploaded in it
    std::size_t used = 0;
  };

  /// Where the host writes for `chunk` in this step.
  static std::byte* piece_of(Chunk& chunk);
  /// The step gives no more copies from it.
  static void seal(Chunk& chunk);
  const void* place(const void* address, Form form, std::size_t bytes, const Fill& fill);
  std::size_t chunk_for(std::size_t bytes);

  DeviceContext& context_;
  Uploads uploads_;
  std::vector<Array> arrays_;  // of this step
  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace kvlab::cuda
