#include "kernels/cuda/backend/host_mirror.h"

#include <algorithm>
#include <exception>

namespace kvlab::cuda {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
constexpr std::size_t kAlignment = 256;

template <typename T>
void put(std::byte* to, std::size_t i, T value) {
  std::copy_n(reinterpret_cast<const std::byte*>(&value), sizeof(T), to + i * sizeof(T));
}

}  // namespace

KvView HostMirror::copy_of(const KvView& view, std::size_t n_seqs) {
  KvView result = view;
  if (view.page_table != nullptr) {
    const std::size_t n_entries = n_seqs * static_cast<std::size_t>(view.pages_per_seq);
    result.page_table = copy_of(std::span<const std::int32_t>(view.page_table, n_entries));
  } else {
    result.region_offset = copy_of(std::span<const std::int64_t>(view.region_offset, n_seqs));
  }
  return result;
}

const std::int32_t* HostMirror::row_sequences(std::span<const SequenceSpan> seqs) {
  std::int64_t n_rows = 0;
  for (const SequenceSpan& seq : seqs) n_rows += seq.n_queries;
  const auto bytes = static_cast<std::size_t>(n_rows) * sizeof(std::int32_t);
  const void* copy = place(seqs.data(), Form::row_sequences, bytes, [seqs](std::byte* to) {
    std::size_t row = 0;
    for (std::size_t seq = 0; seq < seqs.size(); ++seq) {
      for (std::int64_t i = 0; i < seqs[seq].n_queries; ++i) put(to, row++, static_cast<std::int32_t>(seq));
    }
  });
  return static_cast<const std::int32_t*>(copy);
}

const SequenceSpan* HostMirror::row_spans(const SequenceSpan& seq) {
  const SequenceSpan* span = &seq;
  const auto n = static_cast<std::size_t>(seq.n_queries);
  const void* copy = place(span, Form::row_spans, n * sizeof(SequenceSpan), [span, n](std::byte* to) {
    const std::int64_t before = span->kv_len - span->n_queries;
    for (std::size_t i = 0; i < n; ++i) {
      const auto row = static_cast<std::int64_t>(i);
      put(to, i, SequenceSpan{span->first_row + row, 1, before + row + 1});
    }
  });
  return static_cast<const SequenceSpan*>(copy);
}

const std::int64_t* HostMirror::row_regions(const SequenceSpan& span, const KvView& view, std::size_t seq) {
  const std::int64_t* offset = view.region_offset + seq;
  const auto n = static_cast<std::size_t>(span.n_queries);
  const void* copy = place(offset, Form::row_regions, n * sizeof(std::int64_t), [offset, n](std::byte* to) {
    for (std::size_t i = 0; i < n; ++i) put(to, i, *offset);
  });
  return static_cast<const std::int64_t*>(copy);
}

std::size_t HostMirror::chunk_for(std::size_t bytes) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i]->used + bytes <= chunks_[i]->device.bytes()) return i;
  }
  const std::size_t size = std::max(bytes, kChunkBytes);
  chunks_.push_back(
      std::unique_ptr<Chunk>(new Chunk{DeviceMemory(context_, size, "step arrays"), PinnedRing(context_, size)}));
  return chunks_.size() - 1;
}

std::byte* HostMirror::piece_of(Chunk& chunk) {
  if (chunk.piece == nullptr) chunk.piece = chunk.ring.next();
  return chunk.piece;
}

void HostMirror::seal(Chunk& chunk) {
  if (chunk.piece != nullptr) chunk.ring.seal();
  chunk.piece = nullptr;
}

const void* HostMirror::place(const void* address, Form form, std::size_t bytes, const Fill& fill) {
  const auto found = std::find_if(arrays_.begin(), arrays_.end(), [&](const Array& array) {
    return array.address == address && array.form == form && array.bytes == bytes;
  });
  if (found != arrays_.end()) return static_cast<std::byte*>(chunks_[found->chunk]->device.data()) + found->offset;
  if (bytes == 0) return nullptr;
  const std::size_t index = chunk_for(bytes);
  Chunk& chunk = *chunks_[index];
  const std::size_t offset = chunk.used;
  chunk.used = std::min(chunk.device.bytes(), (offset + bytes + kAlignment - 1) / kAlignment * kAlignment);
  arrays_.push_back({address, form, bytes, index, offset, fill});
  std::byte* copy = static_cast<std::byte*>(chunk.device.data()) + offset;
  if (uploads_ == Uploads::at_once) {
    std::byte* staged = piece_of(chunk) + offset;
    fill(staged);
    context_.runtime().copy_to_device(copy, staged, bytes, context_.stream());
  }
  return copy;
}

void HostMirror::forget() {
  arrays_.clear();
  for (const std::unique_ptr<Chunk>& chunk : chunks_) {
    chunk->used = 0;
    seal(*chunk);
  }
}

HostMirror::~HostMirror() {
  try {
    forget();
  } catch (const std::exception&) {
    // The device has failed, and the next call says so.
  }
}

void HostMirror::upload() {
  std::vector<std::size_t> ends(chunks_.size(), 0);
  for (const Array& array : arrays_) {
    array.fill(piece_of(*chunks_[array.chunk]) + array.offset);
    ends[array.chunk] = std::max(ends[array.chunk], array.offset + array.bytes);
  }
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (ends[i] == 0) continue;
    Chunk& chunk = *chunks_[i];
    context_.runtime().copy_to_device(chunk.device.data(), chunk.piece, ends[i], context_.stream());
    seal(chunk);
  }
}

}  // namespace kvlab::cuda
