#include "harness/kernel_benchmarks/cuda_entries.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "kernels/random.h"
#include "kernels/random_kv.h"

namespace kvlab {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr std::uint64_t kSeed = 1;

std::shared_ptr<Buffer> device_values(Operations& ops, std::int64_t n) {
  const std::vector<float> values = varied_values(n);
  std::shared_ptr<Buffer> buffer = ops.allocate(values.size() * sizeof(float));
  ops.upload(buffer->data(), values.data(), buffer->bytes());
  return buffer;
}

/// Drawn where it lies, or on the host by a backend that wants values.
std::shared_ptr<PackedMatrix> drawn_weight(Operations& ops, std::int64_t n_out, std::int64_t n_in, DType dtype) {
  const RandomRows rows{{kSeed, 0.0, 0.02}, n_out};
  if (auto weight = ops.pack_random_matrix({&rows, 1}, n_in, dtype)) return weight;
  HostMatrix host(n_out, n_in);
  host.values = varied_values(n_out * n_in);
  return ops.pack_matrix(host, dtype);
}

struct ProductSet {
  std::shared_ptr<PackedMatrix> weight;  // [n_out, n_in]
  std::shared_ptr<Buffer> x;             // [n_rows, n_in]
  std::shared_ptr<Buffer> y;             // [n_rows, n_out]
};

KernelEntry gemv_entry(const LayerShape& shape, std::string_view layer, std::int64_t n_out, std::int64_t n_in,
                       std::int64_t n_rows, DType dtype) {
  KernelEntry entry;
  entry.name = fmt::format("cuda/gemv/{}/{}/rows:{}/{}", shape.name, layer, n_rows, dtype_name(dtype));
  const auto weight_bytes = n_out * n_in * static_cast<std::int64_t>(dtype_bytes(dtype));
  entry.cost.flops = 2 * n_rows * n_out * n_in;
  entry.cost.bytes = weight_bytes + n_rows * (n_in + n_out) * kFloatBytes;
  entry.cost.product = dtype;
  entry.set_bytes = entry.cost.bytes;
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [&] {
      return ProductSet{drawn_weight(ops, n_out, n_in, dtype), device_values(ops, n_rows * n_in),
                        device_values(ops, n_rows * n_out)};
    };
    return call_over_sets(n_sets, make_set, [=, &ops](ProductSet& set) {
      ops.matmul(*set.weight, static_cast<const float*>(set.x->data()), n_in, n_rows,
                 static_cast<float*>(set.y->data()), n_out, nullptr, false);
    });
  };
  return entry;
}

/// Q, K and V, rotated, and one layer of a cache; calls use `args` as it stands.
struct AttentionSet {
  std::shared_ptr<Buffer> q;             // [n_seqs * n_queries, n_heads * head_dim]
  std::shared_ptr<Buffer> out;           // the same
  std::shared_ptr<Buffer> k;             // [n_seqs, n_kv_heads, context, head_dim], or pages of it
  std::shared_ptr<Buffer> v;             // the same
  std::vector<SequenceSpan> seqs;        // [n_seqs]
  std::vector<std::int64_t> regions;     // [n_seqs]
  std::vector<std::int32_t> page_table;  // [n_seqs, pages_per_seq]; empty: contiguous
  AttentionArgs args;
};

/// Every page once, none beside the next one of its sequence.
std::vector<std::int32_t> scattered_pages(std::int64_t n_pages) {
  constexpr std::int64_t kPrimeStep = 7919;
  std::vector<std::int32_t> pages;
  for (std::int64_t i = 0; i < n_pages; ++i) pages.push_back(static_cast<std::int32_t>(i * kPrimeStep % n_pages));
  return pages;
}

void set_view(const LayerShape& shape, const CudaAttentionCase& c, DType dtype, AttentionSet& set) {
  KvView& kv = set.args.kv;
  kv.k = set.k->data();
  kv.v = set.v->data();
  kv.dtype = dtype;
  kv.slot_stride = shape.head_dim;
  kv.head_stride = (c.page_size == 0 ? c.context : c.page_size) * shape.head_dim;
  for (std::int64_t seq = 0; seq < c.n_seqs; ++seq) {
    set.seqs.push_back({seq * c.n_queries, c.n_queries, c.context});
    set.regions.push_back(seq * shape.n_kv_heads * c.context * shape.head_dim);
  }
  kv.region_offset = set.regions.data();
  if (c.page_size == 0) return;
  kv.page_size = c.page_size;
  kv.page_stride = shape.n_kv_heads * c.page_size * shape.head_dim;
  kv.pages_per_seq = c.context / c.page_size;
  set.page_table = scattered_pages(c.n_seqs * kv.pages_per_seq);
  kv.page_table = set.page_table.data();
}

std::shared_ptr<AttentionSet> make_attention_set(Operations& ops, const LayerShape& shape, const CudaAttentionCase& c,
                                                 DType dtype) {
  auto set = std::make_shared<AttentionSet>();
  const std::int64_t width = shape.n_heads * shape.head_dim;
  const std::int64_t n_rows = c.n_seqs * c.n_queries;
  const auto side_bytes =
      static_cast<std::size_t>(c.n_seqs * c.context * shape.n_kv_heads * shape.head_dim) * dtype_bytes(dtype);
  set->q = device_values(ops, n_rows * width);
  set->out = ops.allocate(static_cast<std::size_t>(n_rows * width * kFloatBytes));
  set->k = ops.allocate(side_bytes);
  set->v = ops.allocate(side_bytes);
  set_view(shape, c, dtype, *set);
  ops.fill_kv(random_kv(kSeed, 0), c.n_seqs, c.context, shape.n_kv_heads, shape.head_dim, set->args.kv);
  AttentionArgs& args = set->args;
  args.q = static_cast<const float*>(set->q->data());
  args.q_stride = width;
  args.out = static_cast<float*>(set->out->data());
  args.out_stride = width;
  args.seqs = set->seqs;
  args.n_heads = shape.n_heads;
  args.n_kv_heads = shape.n_kv_heads;
  args.head_dim = shape.head_dim;
  args.scale = 0.125F;
  return set;
}

KernelEntry attention_entry(const LayerShape& shape, const CudaAttentionCase& c, DType dtype) {
  const std::int64_t width = shape.n_heads * shape.head_dim;
  const std::int64_t dots = c.n_seqs * (c.n_queries * c.context - c.n_queries * (c.n_queries - 1) / 2);
  KernelEntry entry;
  entry.name = fmt::format("cuda/attention_fused/{}/{}/batch:{}/context:{}/{}/{}", shape.name,
                           c.n_queries == 1 ? "decode" : "prefill", c.n_seqs, c.context,
                           c.page_size == 0 ? "contiguous" : fmt::format("paged:{}", c.page_size), dtype_name(dtype));
  entry.cost.flops = 4 * dots * width;
  entry.cost.product = dtype;
  entry.cost.bytes =
      2 * c.n_seqs * c.context * shape.n_kv_heads * shape.head_dim * static_cast<std::int64_t>(dtype_bytes(dtype)) +
      2 * c.n_seqs * c.n_queries * width * kFloatBytes;
  entry.set_bytes = entry.cost.bytes;
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [&] { return make_attention_set(ops, shape, c, dtype); };
    return call_over_sets(n_sets, make_set, [&ops](std::shared_ptr<AttentionSet>& set) {
      ops.attention(AttentionKind::fused, set->args);
    });
  };
  return entry;
}

}  // namespace

CudaBenchmarkSet cuda_benchmark_set() {
  constexpr std::int64_t kContext = 65'536;  // 268 MB of bf16 K and V in a layer of Llama 3.1 8B
  constexpr std::int64_t kPrompt = 8'192;
  constexpr std::int64_t kLargestL2Bytes = std::int64_t{128} << 20;
  return {kLayerShapes[1],
          3 * kLargestL2Bytes,
          {DType::bf16},
          {1, 2, 4, 8},
          {{1, 1, kContext, 0},
           {1, 1, kContext, 64},
           {16, 1, kContext / 16, 0},
           {16, 1, kContext / 16, 64},
           {1, kPrompt, kPrompt, 0},
           {1, kPrompt, kPrompt, 64}}};
}

CudaBenchmarkSet tiny_benchmark_set() {
  return {{"tiny", 32, 2, 1, 16, 48, 40},
          16'384,
          {DType::f32, DType::bf16},
          {1, 3},
          {{2, 1, 32, 0}, {2, 1, 32, 16}, {1, 32, 32, 0}, {1, 32, 32, 16}}};
}

std::vector<KernelEntry> cuda_gemv_entries(const CudaBenchmarkSet& set) {
  const LayerShape& shape = set.shape;
  struct Layer {
    std::string_view name;
    std::int64_t n_out;
    std::int64_t n_in;
  };
  const std::int64_t width = shape.n_heads * shape.head_dim;
  const std::array<Layer, 5> layers = {{{"qkv", width + 2 * shape.n_kv_heads * shape.head_dim, shape.hidden},
                                        {"attention_out", shape.hidden, width},
                                        {"gate_up", 2 * shape.ffn_hidden, shape.hidden},
                                        {"down", shape.hidden, shape.ffn_hidden},
                                        {"lm_head", shape.vocab_size, shape.hidden}}};
  std::vector<KernelEntry> entries;
  for (const Layer& layer : layers) {
    for (const std::int64_t n_rows : set.gemv_rows) {
      for (const DType dtype : set.dtypes) {
        entries.push_back(gemv_entry(shape, layer.name, layer.n_out, layer.n_in, n_rows, dtype));
      }
    }
  }
  return entries;
}

std::vector<KernelEntry> cuda_attention_entries(const CudaBenchmarkSet& set) {
  std::vector<KernelEntry> entries;
  for (const CudaAttentionCase& c : set.attention) {
    for (const DType dtype : set.dtypes) entries.push_back(attention_entry(set.shape, c, dtype));
  }
  return entries;
}

}  // namespace kvlab
