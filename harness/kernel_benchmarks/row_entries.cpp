// Operations on whole rows: lookup, gathering, norms, rotation, activations; for one row (decode) and many (prefill).
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "harness/kernel_benchmarks/entries.h"

namespace kvlab {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr std::int64_t kRowCounts[] = {1, 128, 512};
constexpr float kEpsilon = 1e-5F;

// FLOPs a value, an exponential, a root and a division counting one each.
constexpr std::int64_t kRmsNormFlops = 4;
constexpr std::int64_t kLayerNormFlops = 8;
constexpr std::int64_t kRopeFlops = 3;
constexpr std::int64_t kSiluFlops = 5;
constexpr std::int64_t kGeluFlops = 9;

struct RowSet {
  std::vector<float> in;      // [n_rows, input width]
  std::vector<float> weight;  // [width] for norms
  std::vector<float> bias;    // [width] for layer_norm
  std::vector<float> out;     // [n_rows, output width]; empty for work in place
};

/// The size of a set is what a call touches; `cost` needs only FLOPs and bytes.
KernelEntry row_entry(const LayerShape& shape, std::string_view operation, std::int64_t n_rows, std::int64_t flops,
                      std::int64_t bytes) {
  KernelEntry entry;
  entry.name = fmt::format("{}/{}/rows:{}", operation, shape.name, n_rows);
  entry.cost.flops = flops;
  entry.cost.bytes = bytes;
  entry.cost.traffic = Traffic::copy;
  entry.set_bytes = bytes;
  return entry;
}

KernelEntry rms_norm_entry(const LayerShape& shape, std::int64_t n_rows) {
  const std::int64_t width = shape.hidden;
  const std::int64_t n_values = n_rows * width;
  KernelEntry entry =
      row_entry(shape, "rms_norm", n_rows, kRmsNormFlops * n_values, (2 * n_values + width) * kFloatBytes);
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [=] {
      return RowSet{varied_values(n_values), varied_values(width), {}, varied_values(n_values)};
    };
    return call_over_sets(n_sets, make_set, [=, &ops](RowSet& set) {
      ops.rms_norm(set.in.data(), width, n_rows, width, set.weight.data(), kEpsilon, set.out.data(), width);
    });
  };
  return entry;
}

KernelEntry layer_norm_entry(const LayerShape& shape, std::int64_t n_rows) {
  const std::int64_t width = shape.hidden;
  const std::int64_t n_values = n_rows * width;
  KernelEntry entry =
      row_entry(shape, "layer_norm", n_rows, kLayerNormFlops * n_values, (2 * n_values + 2 * width) * kFloatBytes);
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [=] {
      return RowSet{varied_values(n_values), varied_values(width), varied_values(width), varied_values(n_values)};
    };
    return call_over_sets(n_sets, make_set, [=, &ops](RowSet& set) {
      ops.layer_norm(set.in.data(), width, n_rows, width, set.weight.data(), set.bias.data(), kEpsilon, set.out.data(),
                     width);
    });
  };
  return entry;
}

/// [n_positions, head_dim]: cosines, then sines, so that repeated rotation keeps the length of a pair.
std::vector<float> unit_rotations(std::int64_t n_positions, std::int64_t head_dim) {
  std::vector<float> table(static_cast<std::size_t>(n_positions * head_dim));
  const std::int64_t half = head_dim / 2;
  for (std::int64_t i = 0; i < n_positions * half; ++i) {
    const auto at = static_cast<std::size_t>(i / half * head_dim + i % half);
    table[at] = std::cos(static_cast<float>(i));
    table[at + static_cast<std::size_t>(half)] = std::sin(static_cast<float>(i));
  }
  return table;
}

KernelEntry rope_entry(const LayerShape& shape, std::int64_t n_rows) {
  const std::int64_t width = shape.n_heads * shape.head_dim;
  const std::int64_t n_values = n_rows * width;
  KernelEntry entry = row_entry(shape, "rope", n_rows, kRopeFlops * n_values,
                                (2 * n_values + n_rows * (shape.head_dim + 1)) * kFloatBytes);
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(n_rows));
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<float> rotations = unit_rotations(n_rows, shape.head_dim);
    const auto make_set = [=] { return RowSet{varied_values(n_values), rotations, {}, {}}; };
    return call_over_sets(n_sets, make_set, [=, &ops](RowSet& set) {
      ops.rope(set.in.data(), width, n_rows, shape.n_heads, shape.head_dim, positions.data(), set.weight.data());
    });
  };
  return entry;
}

KernelEntry silu_multiply_entry(const LayerShape& shape, std::int64_t n_rows) {
  const std::int64_t n_values = n_rows * shape.ffn_hidden;
  KernelEntry entry = row_entry(shape, "silu_multiply", n_rows, kSiluFlops * n_values, 3 * n_values * kFloatBytes);
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [=] { return RowSet{varied_values(2 * n_values), {}, {}, varied_values(n_values)}; };
    return call_over_sets(n_sets, make_set, [=, &ops](RowSet& set) {
      ops.silu_multiply(set.in.data(), n_rows, shape.ffn_hidden, set.out.data());
    });
  };
  return entry;
}

KernelEntry gelu_entry(const LayerShape& shape, std::int64_t n_rows) {
  const std::int64_t n_values = n_rows * shape.ffn_hidden;
  KernelEntry entry = row_entry(shape, "gelu", n_rows, kGeluFlops * n_values, 2 * n_values * kFloatBytes);
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    const auto make_set = [=] {
      RowSet set{varied_values(n_values), {}, {}, {}};
      for (float& value : set.in) value += 7.0F;  // gelu(x) = x there: repetition in place must not end in denormals
      return set;
    };
    return call_over_sets(n_sets, make_set, [=, &ops](RowSet& set) { ops.gelu(set.in.data(), n_values); });
  };
  return entry;
}

/// Rows far from each other; the next set begins where none of the last one's were.
std::int64_t scattered_row(std::int64_t i, std::int64_t n_table_rows) {
  constexpr std::int64_t kPrimeStep = 7919;
  return i * kPrimeStep % n_table_rows;
}

struct LookupSet {
  std::vector<std::int32_t> ids;  // [n_rows]
  std::vector<float> out;         // [n_rows, width]
};

KernelEntry embed_entry(const LayerShape& shape, std::int64_t n_rows, DType dtype) {
  const std::int64_t width = shape.hidden;
  const std::int64_t n_table = shape.vocab_size * width;
  const auto element_bytes = static_cast<std::int64_t>(dtype_bytes(dtype));
  KernelEntry entry =
      row_entry(shape, "embed", n_rows, 0, n_rows * (width * (element_bytes + kFloatBytes) + kFloatBytes));
  entry.name += fmt::format("/{}", dtype_name(dtype));
  entry.prepare_bytes = n_table * (kFloatBytes + element_bytes);
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    HostMatrix host;
    host.rows = shape.vocab_size;
    host.cols = width;
    host.values = varied_values(n_table);
    const std::shared_ptr<PackedMatrix> table = ops.pack_table(host, dtype);
    std::int64_t n_ids = 0;
    const auto make_set = [&] {
      LookupSet set{{}, varied_values(n_rows * width)};
      for (std::int64_t i = 0; i < n_rows; ++i) {
        set.ids.push_back(static_cast<std::int32_t>(scattered_row(n_ids++, shape.vocab_size)));
      }
      return set;
    };
    return call_over_sets(n_sets, make_set,
                          [table, &ops](LookupSet& set) { ops.embed(*table, set.ids, set.out.data(), false); });
  };
  return entry;
}

KernelEntry gather_rows_entry(const LayerShape& shape, std::int64_t n_rows) {
  const std::int64_t width = shape.hidden;
  const std::int64_t n_values = n_rows * width;
  KernelEntry entry = row_entry(shape, "gather_rows", n_rows, 0,
                                2 * n_values * kFloatBytes + n_rows * static_cast<std::int64_t>(sizeof(std::int64_t)));
  entry.prepare = [=](Operations& ops, std::int64_t n_sets) {
    std::vector<std::int64_t> rows;  // every row once, last row first
    for (std::int64_t i = n_rows; i-- > 0;) rows.push_back(i);
    const auto make_set = [=] { return RowSet{varied_values(n_values), {}, {}, varied_values(n_values)}; };
    return call_over_sets(n_sets, make_set, [=, &ops](RowSet& set) {
      ops.gather_rows(set.in.data(), width, rows, width, set.out.data(), width);
    });
  };
  return entry;
}

}  // namespace

void add_row_entries(const LayerShape& shape, std::vector<KernelEntry>& entries) {
  for (const std::int64_t n_rows : kRowCounts) {
    entries.push_back(embed_entry(shape, n_rows, DType::f32));
    entries.push_back(embed_entry(shape, n_rows, DType::bf16));
    entries.push_back(rms_norm_entry(shape, n_rows));
    entries.push_back(layer_norm_entry(shape, n_rows));
    entries.push_back(rope_entry(shape, n_rows));
    entries.push_back(silu_multiply_entry(shape, n_rows));
    entries.push_back(gelu_entry(shape, n_rows));
    entries.push_back(gather_rows_entry(shape, n_rows));
  }
}

}  // namespace kvlab
