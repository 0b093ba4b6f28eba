// Products of a layer and of the LM head, for one row (decode), few rows (a batch) and many (prefill).
#include <fmt/format.h>

#include "harness/kernel_benchmarks/entries.h"

namespace kvlab {
namespace {

struct ProductShape {
  std::string_view name;
  std::int64_t n_out;
  std::int64_t n_in;
};

struct ProductSet {
  std::unique_ptr<PackedMatrix> weight;  // [n_out, n_in]
  std::vector<float> x;                  // [n_rows, n_in]
  std::vector<float> y;                  // [n_rows, n_out]
};

KernelEntry matmul_entry(const LayerShape& layer, const ProductShape& shape, std::int64_t n_rows, DType dtype) {
  const std::int64_t n_out = shape.n_out;
  const std::int64_t n_in = shape.n_in;
  const auto weight_bytes = n_out * n_in * static_cast<std::int64_t>(dtype_bytes(dtype));
  const auto float_bytes = static_cast<std::int64_t>(sizeof(float));
  KernelEntry entry;
  entry.name = fmt::format("matmul/{}/{}/rows:{}/{}", layer.name, shape.name, n_rows, dtype_name(dtype));
  entry.cost.flops = 2 * n_rows * n_out * n_in;
  entry.cost.bytes = weight_bytes + n_rows * (n_in + n_out) * float_bytes;
  entry.cost.product = dtype;
  entry.set_bytes = entry.cost.bytes;
  entry.prepare_bytes = n_out * n_in * float_bytes;
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    HostMatrix weight;
    weight.rows = n_out;
    weight.cols = n_in;
    weight.values = varied_values(n_out * n_in);
    const auto make_set = [&] {
      return ProductSet{ops.pack_matrix(weight, dtype), varied_values(n_rows * n_in), varied_values(n_rows * n_out)};
    };
    return call_over_sets(n_sets, make_set, [=, &ops](ProductSet& set) {
      ops.matmul(*set.weight, set.x.data(), n_in, n_rows, set.y.data(), n_out, nullptr, false);
    });
  };
  return entry;
}

}  // namespace

void add_matmul_entries(const LayerShape& layer, std::vector<KernelEntry>& entries) {
  const std::int64_t q_width = layer.n_heads * layer.head_dim;
  const ProductShape shapes[] = {
      {"qkv", q_width + 2 * layer.n_kv_heads * layer.head_dim, layer.hidden},
      {"attention_out", layer.hidden, q_width},
      {"gate_up", 2 * layer.ffn_hidden, layer.hidden},
      {"down", layer.hidden, layer.ffn_hidden},
      {"lm_head", layer.vocab_size, layer.hidden},
  };
  for (const ProductShape& shape : shapes) {
    for (const std::int64_t n_rows : {1, 8, 128, 512}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        entries.push_back(matmul_entry(layer, shape, n_rows, dtype));
      }
    }
  }
}

}  // namespace kvlab
