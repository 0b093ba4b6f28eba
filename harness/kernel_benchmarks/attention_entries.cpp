// Attention and append over one sequence of a cache, contiguous or in scattered pages.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/kernel_benchmarks/entries.h"

namespace kvlab {
namespace {

constexpr std::int64_t kPageSize = 16;
constexpr std::int64_t kPageStep = 7;  // page i of the sequence is page 7 i of the pool: no neighbours

/// One layer of a cache that holds one sequence of kv_len positions, a power of two and at least kPageSize.
class CacheLayer {
 public:
  CacheLayer(Operations& ops, const LayerShape& shape, std::int64_t kv_len, DType dtype, bool paged)
      : shape_(shape), kv_len_(kv_len), dtype_(dtype), k_(filled(ops)), v_(filled(ops)) {
    if (!paged) return;
    const std::int64_t n_pages = kv_len / kPageSize;
    for (std::int64_t i = 0; i < n_pages; ++i)
      page_table_.push_back(static_cast<std::int32_t>(i * kPageStep % n_pages));
  }

  /// Valid while this object stays where it is.
  KvView view() const {
    KvView view;
    view.k = k_->data();
    view.v = v_->data();
    view.dtype = dtype_;
    view.slot_stride = shape_.head_dim;
    view.head_stride = (page_table_.empty() ? kv_len_ : kPageSize) * shape_.head_dim;
    view.region_offset = &region_offset_;
    if (page_table_.empty()) return view;
    view.page_size = kPageSize;
    view.page_stride = shape_.n_kv_heads * kPageSize * shape_.head_dim;
    view.page_table = page_table_.data();
    view.pages_per_seq = static_cast<std::int64_t>(page_table_.size());
    return view;
  }

 private:
  std::unique_ptr<Buffer> filled(Operations& ops) const {
    const std::vector<float> values = varied_values(kv_len_ * shape_.n_kv_heads * shape_.head_dim);
    auto buffer = ops.allocate(values.size() * dtype_bytes(dtype_));
    if (dtype_ == DType::f32) {
      std::memcpy(buffer->data(), values.data(), buffer->bytes());
      return buffer;
    }
    auto* stored = static_cast<Bf16*>(buffer->data());
    for (std::size_t i = 0; i < values.size(); ++i) stored[i] = bf16_from_float(values[i]);
    return buffer;
  }

  LayerShape shape_;
  std::int64_t kv_len_;
  DType dtype_;
  std::unique_ptr<Buffer> k_;  // [n_kv_heads, kv_len, head_dim], or [n_pages, n_kv_heads, kPageSize, head_dim]
  std::unique_ptr<Buffer> v_;  // the same
  std::vector<std::int32_t> page_table_;  // [n_pages]; empty: contiguous
  std::int64_t region_offset_ = 0;        // [1]
};

struct AttentionSet {
  CacheLayer cache;
  std::vector<float> q;    // [n_queries, n_heads * head_dim]
  std::vector<float> out;  // the same
};

struct AttentionCase {
  AttentionKind kind;
  std::int64_t n_queries;  // 1: decode; kv_len: prefill
  std::int64_t kv_len;
  bool paged;
  DType dtype;
};

std::string_view layout_name(bool paged) { return paged ? "paged" : "contiguous"; }

std::int64_t cache_bytes(const LayerShape& shape, std::int64_t n_positions, DType dtype) {
  return 2 * n_positions * shape.n_kv_heads * shape.head_dim * static_cast<std::int64_t>(dtype_bytes(dtype));
}

void attend(Operations& ops, const LayerShape& shape, const AttentionCase& c, AttentionSet& set) {
  const SequenceSpan span{0, c.n_queries, c.kv_len};
  AttentionArgs args;
  args.q = set.q.data();
  args.q_stride = shape.n_heads * shape.head_dim;
  args.out = set.out.data();
  args.out_stride = args.q_stride;
  args.kv = set.cache.view();
  args.seqs = {&span, 1};
  args.n_heads = shape.n_heads;
  args.n_kv_heads = shape.n_kv_heads;
  args.head_dim = shape.head_dim;
  args.scale = 0.125F;
  ops.attention(c.kind, args);
}

KernelEntry attention_entry(const LayerShape& shape, const AttentionCase& c) {
  const std::int64_t width = shape.n_heads * shape.head_dim;
  const std::int64_t dots = c.n_queries * c.kv_len - c.n_queries * (c.n_queries - 1) / 2;
  KernelEntry entry;
  entry.name =
      fmt::format("attention_{}/{}/{}/context:{}/{}/{}", c.kind == AttentionKind::naive ? "naive" : "fused", shape.name,
                  c.n_queries == 1 ? "decode" : "prefill", c.kv_len, layout_name(c.paged), dtype_name(c.dtype));
  entry.cost.flops = 4 * dots * width;
  entry.cost.bytes =
      cache_bytes(shape, c.kv_len, c.dtype) + 2 * c.n_queries * width * static_cast<std::int64_t>(sizeof(float));
  entry.set_bytes = entry.cost.bytes;
  if (c.kind == AttentionKind::naive) {  // scores of one thread
    entry.prepare_bytes = c.n_queries * c.kv_len * static_cast<std::int64_t>(sizeof(float));
  }
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [&] {
      return AttentionSet{CacheLayer(ops, shape, c.kv_len, c.dtype, c.paged), varied_values(c.n_queries * width),
                          varied_values(c.n_queries * width)};
    };
    return call_over_sets(n_sets, make_set, [=, &ops](AttentionSet& set) { attend(ops, shape, c, set); });
  };
  return entry;
}

struct AppendSet {
  CacheLayer cache;
  std::vector<float> k;  // [n_rows, n_kv_heads * head_dim]
  std::vector<float> v;  // the same
};

KernelEntry append_entry(const LayerShape& shape, std::int64_t n_rows, bool paged, DType dtype) {
  const std::int64_t kv_len = std::max(n_rows, kPageSize);
  const std::int64_t width = shape.n_kv_heads * shape.head_dim;
  const std::int64_t row_bytes = 2 * n_rows * width * static_cast<std::int64_t>(sizeof(float));
  KernelEntry entry;
  entry.name = fmt::format("append/{}/rows:{}/{}/{}", shape.name, n_rows, layout_name(paged), dtype_name(dtype));
  entry.cost.bytes = row_bytes + cache_bytes(shape, n_rows, dtype);
  entry.cost.traffic = Traffic::copy;
  entry.set_bytes = row_bytes + cache_bytes(shape, kv_len, dtype);
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [&] {
      return AppendSet{CacheLayer(ops, shape, kv_len, dtype, paged), varied_values(n_rows * width),
                       varied_values(n_rows * width)};
    };
    return call_over_sets(n_sets, make_set, [=, &ops](AppendSet& set) {
      const SequenceSpan span{0, n_rows, kv_len};
      ops.append(set.k.data(), set.v.data(), width, {&span, 1}, shape.n_kv_heads, shape.head_dim, set.cache.view());
    });
  };
  return entry;
}

}  // namespace

void add_attention_entries(const LayerShape& shape, std::vector<KernelEntry>& entries) {
  for (const AttentionKind kind : {AttentionKind::naive, AttentionKind::fused}) {
    for (const bool paged : {false, true}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        for (const std::int64_t prompt : {128, 512, 2048}) {
          entries.push_back(attention_entry(shape, {kind, prompt, prompt, paged, dtype}));
        }
        for (const std::int64_t context : {128, 1024, 4096, 16384}) {
          entries.push_back(attention_entry(shape, {kind, 1, context, paged, dtype}));
        }
      }
    }
  }
}

void add_append_entries(const LayerShape& shape, std::vector<KernelEntry>& entries) {
  for (const std::int64_t n_rows : {1, 128}) {
    for (const bool paged : {false, true}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        entries.push_back(append_entry(shape, n_rows, paged, dtype));
      }
    }
  }
}

}  // namespace kvlab
