// K and V of one layer as kernels see them: KvView (kernels/views.h) with typed device pointers, and where a row
// stands. One type for regions and pages, so that no kernel has two versions. Who owns the memory is not its business.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/memory.cuh"
#include "kernels/views.h"

namespace kvlab::cuda {

/// Rows of head_dim elements. With a page table: pages [n_pages, n_kv_heads, page_size, head_dim]; without: one region
/// [n_kv_heads, slots, head_dim] a sequence. The strides say so. T: float or Bf16, const in kernels that only read.
template <typename T>
struct DeviceKvView {
  Global<T> k;
  Global<T> v;
  std::int64_t page_stride = 0;             // elements from one page to the next; unused without a page table
  std::int64_t head_stride = 0;             // elements from one KV head to the next
  std::int64_t slot_stride = 0;             // elements from one position to the next inside a page or region
  int page_size = 0;                        // slots a page; unused without a page table
  Global<const std::int32_t> page_table;    // [n_seqs, pages_per_seq], or null
  std::int64_t pages_per_seq = 0;           // entries a sequence has in the table
  Global<const std::int64_t> region_start;  // [n_seqs] elements; used without a page table

  KVLAB_HOST_DEVICE bool is_paged() const { return static_cast<bool>(page_table); }
};

/// The same memory, page table and regions, all of which are device pointers already. T is the view's dtype.
template <typename T>
DeviceKvView<T> device_kv_view(const KvView& view) {
  DeviceKvView<T> result;
  result.k = static_cast<T*>(view.k);
  result.v = static_cast<T*>(view.v);
  result.page_stride = view.page_stride;
  result.head_stride = view.head_stride;
  result.slot_stride = view.slot_stride;
  result.page_size = static_cast<int>(view.page_size);
  result.page_table = Global<const std::int32_t>(view.page_table);
  result.pages_per_seq = view.pages_per_seq;
  result.region_start = Global<const std::int64_t>(view.region_offset);
  return result;
}

/// Which page of its sequence a position is on, and the slot there. A region counts as one page.
struct KvSlot {
  int page;
  int slot;
};
template <typename T>
KVLAB_HOST_DEVICE KvSlot kv_slot(const DeviceKvView<T>& view, int pos) {
  if (!view.is_paged()) return {0, pos};
  const int page = pos / view.page_size;
  return {page, pos - page * view.page_size};
}

/// Elements from k (or v) to page `page` of sequence `seq`: one read of the table, or of the regions' starts. Reads go
/// through the read-only path.
template <typename T>
KVLAB_DEVICE std::int64_t kv_page_start(const DeviceKvView<T>& view, int seq, int page, int line = __builtin_LINE()) {
  if (!view.is_paged()) return load_global_constant(view.region_start + seq, line);
  return load_global_constant(view.page_table + (seq * view.pages_per_seq + page), line) * view.page_stride;
}

/// Elements from k (or v) to component 0 of a row, given where its page starts. 64-bit: caches exceed 2^31 elements.
template <typename T>
KVLAB_HOST_DEVICE std::int64_t kv_row_offset(const DeviceKvView<T>& view, std::int64_t page_start, int kv_head,
                                             int slot) {
  return page_start + kv_head * view.head_stride + slot * view.slot_stride;
}

}  // namespace kvlab::cuda
