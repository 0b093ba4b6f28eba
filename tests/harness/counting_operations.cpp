#include "tests/harness/counting_operations.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace kvlab::testing {
namespace {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes) : words_((bytes + 7) / 8), bytes_(bytes) {}
  void* data() override { return words_.data(); }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t bytes_;
};

class PlainMatrix final : public PackedMatrix {
 public:
  PlainMatrix(HostMatrix matrix, DType storage) : matrix_(std::move(matrix)), storage_(storage) {}
  std::int64_t n_out() const override { return matrix_.rows; }
  std::int64_t n_in() const override { return matrix_.cols; }
  DType dtype() const override { return storage_; }
  const float* row(std::int64_t r) const { return matrix_.row(r); }

 private:
  HostMatrix matrix_;  // [n_out, n_in]
  DType storage_;
};

const PlainMatrix& plain(const PackedMatrix& matrix) { return dynamic_cast<const PlainMatrix&>(matrix); }

const std::byte* address(const void* base, const KvView& view, std::int64_t offset) {
  return static_cast<const std::byte*>(base) + offset * static_cast<std::int64_t>(dtype_bytes(view.dtype));
}

}  // namespace

PhaseCount CountingOperations::take() {
  end_pass();
  return std::exchange(count_, {});
}

/// What was read once or often in a pass counts once.
void CountingOperations::end_pass() {
  if (!norms_.empty()) throw std::logic_error("a norm that no product follows");
  for (const auto& [row, used] : used_rows_) count_.operations[used.operation].weight_bytes += used.bytes;
  for (const auto& [row, bytes] : read_) count_.operations[Operation::attention].kv_read_bytes += bytes;
  used_rows_.clear();
  read_.clear();
  layer_ = 0;
}

Operation CountingOperations::operation_of(const PackedMatrix& weight) const {
  const std::int64_t q_width = config_.n_heads * config_.head_dim;
  const std::int64_t up_width = config_.ffn_hidden * (config_.family == Family::llama ? 2 : 1);
  if (weight.n_out() == config_.hidden && weight.n_in() == q_width) return Operation::output_projection;
  if (weight.n_out() == config_.hidden && weight.n_in() == config_.ffn_hidden) return Operation::mlp_down;
  if (weight.n_out() == up_width) return Operation::mlp_up;
  if (weight.n_out() == config_.vocab_size) return Operation::lm_head;
  return Operation::kv_projection;
}

void CountingOperations::use_row(Operation operation, const float* row, std::int64_t n_elements) {
  used_rows_[row] = {operation, n_elements * static_cast<std::int64_t>(dtype_bytes(storage_))};
}

/// A norm over heads belongs to Q and K; one over the whole row to the product that comes next.
void CountingOperations::use_norm(const float* weight, std::int64_t width) {
  if (width == config_.head_dim) {
    use_row(Operation::kv_projection, weight, width);
  } else {
    norms_[weight] = width;
  }
}

std::unique_ptr<Buffer> CountingOperations::allocate(std::size_t bytes) { return std::make_unique<HostBuffer>(bytes); }

std::unique_ptr<PackedMatrix> CountingOperations::pack_matrix(const HostMatrix& weight, DType storage) {
  storage_ = storage;
  return std::make_unique<PlainMatrix>(weight, storage);
}

std::unique_ptr<PackedMatrix> CountingOperations::pack_table(const HostMatrix& table, DType storage) {
  return pack_matrix(table, storage);
}

void CountingOperations::embed(const PackedMatrix& table, std::span<const std::int32_t> ids, float* out,
                               bool accumulate) {
  if (!accumulate) {  // the first operation of a pass
    end_pass();
    count_.rows += static_cast<std::int64_t>(ids.size());
  }
  const std::int64_t width = table.n_in();
  for (const std::int32_t id : ids) {
    for (std::int64_t i = 0; i < width; ++i, ++out) {
      *out = plain(table).row(id)[i] + (accumulate ? *out : 0.0F);
      count_.operations[Operation::embedding].weight_bytes += static_cast<std::int64_t>(dtype_bytes(table.dtype()));
    }
  }
}

void CountingOperations::matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows,
                                float* y, std::int64_t y_stride, const float* bias, bool accumulate) {
  const Operation operation = operation_of(weight);
  const Operation norm = operation == Operation::lm_head  ? Operation::final_norm
                         : operation == Operation::mlp_up ? Operation::mlp_norm
                                                          : Operation::attention_norm;
  for (const auto& [vector, width] : std::exchange(norms_, {})) use_row(norm, vector, width);
  if (bias != nullptr) use_row(operation, bias, weight.n_out());
  std::int64_t& flops = count_.operations[operation].flops;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t out = 0; out < weight.n_out(); ++out) {
      const float* row = plain(weight).row(out);
      double sum = bias == nullptr ? 0.0 : static_cast<double>(bias[out]);
      for (std::int64_t in = 0; in < weight.n_in(); ++in) {
        sum += static_cast<double>(row[in]) * static_cast<double>(x[r * x_stride + in]);
        flops += 2;
      }
      use_row(operation, row, weight.n_in());
      float& value = y[r * y_stride + out];
      value = static_cast<float>(sum) + (accumulate ? value : 0.0F);
    }
  }
}

void CountingOperations::rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                                  const float* weight, float eps, float* y, std::int64_t y_stride) {
  use_norm(weight, width);
  for (std::int64_t r = 0; r < n_rows; ++r) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += std::pow(static_cast<double>(x[r * x_stride + i]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(eps));
    for (std::int64_t i = 0; i < width; ++i) {
      y[r * y_stride + i] = static_cast<float>(static_cast<double>(x[r * x_stride + i]) * scale) * weight[i];
    }
  }
}

void CountingOperations::layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                                    const float* weight, const float* bias, float eps, float* y,
                                    std::int64_t y_stride) {
  use_norm(weight, width);
  use_norm(bias, width);
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const float* row = x + r * x_stride;
    double mean = 0;
    for (std::int64_t i = 0; i < width; ++i) mean += static_cast<double>(row[i]) / static_cast<double>(width);
    double variance = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      variance += std::pow(static_cast<double>(row[i]) - mean, 2) / static_cast<double>(width);
    }
    const double scale = 1 / std::sqrt(variance + static_cast<double>(eps));
    for (std::int64_t i = 0; i < width; ++i) {
      y[r * y_stride + i] = static_cast<float>((static_cast<double>(row[i]) - mean) * scale) * weight[i] + bias[i];
    }
  }
}

void CountingOperations::rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads,
                              std::int64_t head_dim, const std::int32_t* positions, const float* cos_sin) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const float* turn = cos_sin + positions[r] * head_dim;
    for (std::int64_t h = 0; h < n_heads; ++h) {
      float* head = x + r * x_stride + h * head_dim;
      for (std::int64_t i = 0; i < half; ++i) {
        const float a = head[i];
        const float b = head[i + half];
        head[i] = a * turn[i] - b * turn[half + i];
        head[i + half] = b * turn[i] + a * turn[half + i];
      }
    }
  }
}

std::int64_t CountingOperations::store_row(const float* row, const KvView& view, void* base, std::int64_t offset,
                                           std::int64_t head_dim) {
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < head_dim; ++i) {
    if (view.dtype == DType::f32) {
      static_cast<float*>(base)[offset + i] = row[i];
    } else {
      static_cast<Bf16*>(base)[offset + i] = bf16_from_float(row[i]);
    }
    bytes += static_cast<std::int64_t>(dtype_bytes(view.dtype));
  }
  return bytes;
}

void CountingOperations::append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                                std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) {
  std::int64_t& bytes = count_.operations[Operation::append].kv_write_bytes;
  for (std::size_t s = 0; s < seqs.size(); ++s) {
    for (std::int64_t i = 0; i < seqs[s].n_queries; ++i) {
      if (layer_ == 0 && v != nullptr) ++count_.appended_rows;
      const std::int64_t pos = seqs[s].kv_len - seqs[s].n_queries + i;
      for (std::int64_t h = 0; h < n_kv_heads; ++h) {
        const std::int64_t from = (seqs[s].first_row + i) * stride + h * head_dim;
        const std::int64_t to = kv_offset(view, static_cast<std::int64_t>(s), h, pos);
        bytes += store_row(k + from, view, view.k, to, head_dim);
        if (v == nullptr) continue;  // Q, kept beside: whoever reads it reads what was never stored as K or V
        bytes += store_row(v + from, view, view.v, to, head_dim);
        stored_.insert({address(view.k, view, to), address(view.v, view, to)});
      }
    }
  }
}

std::vector<float> CountingOperations::read_row(const void* base, const KvView& view, std::int64_t offset,
                                                std::int64_t head_dim) {
  std::vector<float> row;
  std::int64_t bytes = 0;
  for (std::int64_t i = offset; i < offset + head_dim; ++i) {
    row.push_back(view.dtype == DType::f32 ? static_cast<const float*>(base)[i]
                                           : bf16_to_float(static_cast<const Bf16*>(base)[i]));
    bytes += static_cast<std::int64_t>(dtype_bytes(view.dtype));
  }
  const Address place = address(base, view, offset);
  if (stored_.count(place) > 0) {
    read_[place] = bytes;
  } else {
    ++count_.rows_never_stored;
  }
  return row;
}

/// One query row of one head; returns its dots.
std::int64_t CountingOperations::attend(const AttentionArgs& args, std::int64_t seq, std::int64_t query,
                                        std::int64_t head) {
  const SequenceSpan& span = args.seqs[static_cast<std::size_t>(seq)];
  const std::int64_t position = span.kv_len - span.n_queries + query;
  const std::int64_t kv_head = head / (args.n_heads / args.n_kv_heads);
  const float* q = args.q + (span.first_row + query) * args.q_stride + head * args.head_dim;
  std::int64_t& flops = count_.operations[Operation::attention].flops;
  std::vector<double> scores;
  std::vector<std::int64_t> offsets;
  for (std::int64_t key = 0; key <= position; ++key) {
    if (args.window > 0 && key <= position - args.window) continue;
    offsets.push_back(kv_offset(args.kv, seq, kv_head, key));
    const std::vector<float> k = read_row(args.kv.k, args.kv, offsets.back(), args.head_dim);
    double dot = 0;
    for (std::size_t i = 0; i < k.size(); ++i, flops += 2) dot += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    scores.push_back(dot * static_cast<double>(args.scale));
  }
  const double shift = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - shift);
  std::vector<double> sum(static_cast<std::size_t>(args.head_dim));
  for (std::size_t j = 0; j < offsets.size(); ++j) {
    const std::vector<float> v = read_row(args.kv.v, args.kv, offsets[j], args.head_dim);
    for (std::size_t i = 0; i < v.size(); ++i, flops += 2) sum[i] += scores[j] / total * static_cast<double>(v[i]);
  }
  float* out = args.out + (span.first_row + query) * args.out_stride + head * args.head_dim;
  std::transform(sum.begin(), sum.end(), out, [](double value) { return static_cast<float>(value); });
  return static_cast<std::int64_t>(scores.size());
}

AttentionWork CountingOperations::attention(AttentionKind /*kind*/, const AttentionArgs& args) {
  AttentionWork work;
  for (std::size_t s = 0; s < args.seqs.size(); ++s) {
    for (std::int64_t query = 0; query < args.seqs[s].n_queries; ++query) {
      for (std::int64_t head = 0; head < args.n_heads; ++head) {
        const std::int64_t dots = attend(args, static_cast<std::int64_t>(s), query, head);
        if (head > 0) continue;
        work.dots += dots;
        if (query == args.seqs[s].n_queries - 1) work.dots_newest_row += dots;
      }
    }
  }
  // A pruned last layer without logit rows never comes here; its entry stays 0.
  count_.attention_dots.resize(static_cast<std::size_t>(config_.n_layers));
  count_.attention_dots_newest_row.resize(static_cast<std::size_t>(config_.n_layers));
  count_.attention_dots[layer_] += work.dots;
  count_.attention_dots_newest_row[layer_] += work.dots_newest_row;
  ++layer_;
  return work;
}

void CountingOperations::silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) {
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t i = 0; i < width; ++i) {
      const float gate = gate_up[r * 2 * width + i];
      out[r * width + i] = gate / (1 + std::exp(-gate)) * gate_up[r * 2 * width + width + i];
    }
  }
}

void CountingOperations::gelu(float* x, std::int64_t n_values) {
  for (std::int64_t i = 0; i < n_values; ++i) {
    const auto value = static_cast<double>(x[i]);
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (value + 0.044715 * value * value * value);
    x[i] = static_cast<float>(0.5 * value * (1 + std::tanh(inner)));
  }
}

void CountingOperations::gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows,
                                     std::int64_t width, float* dst, std::int64_t dst_stride) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(src + rows[i] * src_stride, width, dst + static_cast<std::int64_t>(i) * dst_stride);
  }
}

}  // namespace kvlab::testing
