#include "kernels/cuda/backend/device_operations.h"

#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/backend/device_matrix.h"
#include "kernels/cuda/backend/fused_attention.h"
#include "kernels/cuda/backend/fused_product.h"
#include "kernels/cuda/backend/linear_product.h"
#include "kernels/cuda/backend/prefill_attention.h"
#include "kernels/cuda/fill_random.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/sample.h"
#include "kernels/operation_nodes.h"

namespace kvlab::cuda {
namespace {

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(std::shared_ptr<DeviceContext> context, std::size_t bytes)
      : context_(std::move(context)), memory_(*context_, bytes, "buffer") {
    if (bytes == 0) return;
    context_->runtime().fill(memory_.data(), 0, bytes, context_->stream());
    context_->note_buffer(memory_.data(), bytes);
  }
  ~DeviceBuffer() override { context_->forget_buffer(memory_.data()); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() override { return memory_.data(); }
  std::size_t bytes() const override { return memory_.bytes(); }

 private:
  std::shared_ptr<DeviceContext> context_;
  DeviceMemory memory_;
};

/// Launches whose arguments are all there is to know.
template <class Launch>
class FixedWork final : public Work {
 public:
  explicit FixedWork(const Launch& launch) : launch_(launch) {}
  void launch(CUstream_st* stream) override { launch_(stream); }

 private:
  Launch launch_;
};

void check_heads(const AttentionArgs& args) {
  if (args.n_kv_heads >= 1 && args.n_heads % args.n_kv_heads == 0) return;
  throw std::invalid_argument("attention: " + std::to_string(args.n_kv_heads) + " KV heads do not divide " +
                              std::to_string(args.n_heads) + " query heads");
}

}  // namespace

DeviceOperations::DeviceOperations(std::unique_ptr<Runtime> runtime, std::unique_ptr<MatmulEngine> matmuls,
                                   ProductChoices choices)
    : context_(std::make_shared<DeviceContext>(std::move(runtime), std::move(matmuls))),
      mirror_(*context_, HostMirror::Uploads::at_once),
      plans_(*context_),
      copies_(context_),
      marks_(context_),
      choices_(std::move(choices)),
      rounded_(*context_, "activations in bf16"),
      naive_(*context_),
      fused_(*context_, "partial results of attention"),
      probes_(*context_, [this](const char* operation, const MemoryProbes::Launch& launch) {
        issue(launch, [&] {
          GraphNode node;
          node.operation = operation;
          return node;
        });
      }) {}

std::unique_ptr<Buffer> DeviceOperations::allocate(std::size_t bytes) {
  return std::make_unique<DeviceBuffer>(context_, bytes);
}

void DeviceOperations::upload(void* to, const void* from, std::size_t bytes) { context_->upload(to, from, bytes); }

void DeviceOperations::download(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, copies_.start(from, bytes)->wait(), bytes);
}

std::unique_ptr<PendingCopy> DeviceOperations::start_download(const void* from, std::size_t bytes) {
  return copies_.start(from, bytes);
}

std::unique_ptr<TimeMark> DeviceOperations::mark() { return marks_.mark(); }

Transfers DeviceOperations::transfers() const { return context_->runtime().transfers(); }

void DeviceOperations::begin_step() {
  mirror_.forget();
  plans_.forget();
}

std::unique_ptr<PackedMatrix> DeviceOperations::pack_matrix(const HostMatrix& weight, DType storage) {
  return std::make_unique<DeviceMatrix>(context_, weight, storage, "weight");
}

std::unique_ptr<PackedMatrix> DeviceOperations::pack_table(const HostMatrix& table, DType storage) {
  return std::make_unique<DeviceMatrix>(context_, table, storage, "embedding");
}

std::unique_ptr<PackedMatrix> DeviceOperations::pack_random_matrix(std::span<const RandomRows> parts, std::int64_t n_in,
                                                                   DType storage) {
  return std::make_unique<DeviceMatrix>(context_, parts, n_in, storage, "weight");
}

std::unique_ptr<PackedMatrix> DeviceOperations::pack_random_table(std::span<const RandomRows> parts, std::int64_t n_in,
                                                                  DType storage) {
  return std::make_unique<DeviceMatrix>(context_, parts, n_in, storage, "embedding");
}

void DeviceOperations::fill_kv(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens,
                               std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) {
  begin_step();
  const KvView device_view = mirror_.copy_of(view, static_cast<std::size_t>(n_seqs));
  launch_fill_kv(values, n_seqs, n_tokens, n_kv_heads, head_dim, device_view, context_->stream());
}

template <class Launch, class Describe>
void DeviceOperations::issue(const Launch& launch, const Describe& describe) {
  if (recording_ == nullptr) {
    launch(context_->stream());
  } else {
    recording_->add(std::make_unique<FixedWork<Launch>>(launch), describe());
  }
}

template <class Describe>
void DeviceOperations::issue_work(std::unique_ptr<Work> work, const Describe& describe) {
  if (recording_ == nullptr) {
    work->prepare();
    work->launch(context_->stream());
  } else {
    recording_->add(std::move(work), describe());
  }
}

void DeviceOperations::embed(const PackedMatrix& table, std::span<const std::int32_t> ids, float* out,
                             bool accumulate) {
  const DeviceMatrix& matrix = device_matrix(table);
  const std::int32_t* device_ids = mirror().copy_of(ids);
  const auto n_ids = static_cast<std::int64_t>(ids.size());
  issue(
      [&matrix, device_ids, n_ids, out, accumulate](CUstream_st* stream) {
        if (matrix.dtype() == DType::f32) {
          launch_embed(static_cast<const float*>(matrix.data()), matrix.n_in(), device_ids, n_ids, out, accumulate,
                       stream);
        } else {
          launch_embed(static_cast<const Bf16*>(matrix.data()), matrix.n_in(), device_ids, n_ids, out, accumulate,
                       stream);
        }
      },
      [&] { return nodes::embed(table, ids, out, accumulate); });
}

void DeviceOperations::matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows,
                              float* y, std::int64_t y_stride, const float* bias, bool accumulate) {
  const DeviceMatrix& matrix = device_matrix(weight);
  if (n_rows == 0) return;
  MatrixProduct product = dense_product(n_rows, matrix.n_in(), matrix.n_out(), matrix.dtype());
  product.x_stride = x_stride;
  product.y_stride = y_stride;
  product.has_bias = bias != nullptr;
  product.accumulate = accumulate;
  issue_work(
      std::make_unique<LinearWork>(*context_, rounded_, choices_, product, MatmulOperands{matrix.data(), x, bias, y}),
      [&] { return nodes::matmul(weight, x, x_stride, n_rows, y, y_stride, accumulate); });
}

void DeviceOperations::rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                                const float* weight, float eps, float* y, std::int64_t y_stride) {
  issue([=](CUstream_st* stream) { launch_rms_norm(x, x_stride, n_rows, width, weight, eps, y, y_stride, stream); },
        [&] { return nodes::norm("rms_norm", x, x_stride, n_rows, width, y, y_stride); });
}

void DeviceOperations::layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                                  const float* weight, const float* bias, float eps, float* y, std::int64_t y_stride) {
  issue(
      [=](CUstream_st* stream) {
        launch_layer_norm(x, x_stride, n_rows, width, weight, bias, eps, y, y_stride, stream);
      },
      [&] { return nodes::norm("layer_norm", x, x_stride, n_rows, width, y, y_stride); });
}

void DeviceOperations::rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads,
                            std::int64_t head_dim, const std::int32_t* positions, const float* cos_sin) {
  const std::int32_t* device_positions =
      mirror().copy_of(std::span<const std::int32_t>(positions, static_cast<std::size_t>(n_rows)));
  issue(
      [=](CUstream_st* stream) {
        launch_rope(x, x_stride, n_rows, n_heads, head_dim, device_positions, cos_sin, stream);
      },
      [&] { return nodes::rope(x, x_stride, n_rows, n_heads * head_dim, positions); });
}

void DeviceOperations::append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                              std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) {
  const AppendRows rows{k,
                        v,
                        stride,
                        mirror().copy_of(seqs),
                        static_cast<std::int64_t>(seqs.size()),
                        most_queries(seqs),
                        n_kv_heads,
                        head_dim,
                        mirror().copy_of(view, seqs.size())};
  issue([rows](CUstream_st* stream) { launch_append(rows, stream); },
        [&] { return nodes::append(k, v, stride, seqs, n_kv_heads * head_dim, view); });
}

Fusions DeviceOperations::fusions() const { return {kGemvMaxRows, true}; }

void DeviceOperations::fused_matmul(const FusedProduct& product) {
  if (product.n_rows == 0) return;
  issue_work(std::make_unique<FusedProductWork>(*context_, rounded_, choices_, product),
             [&] { return nodes::fused_matmul(product); });
}

void DeviceOperations::rope_append(const RopeAppend& step) {
  RopeAppendArgs args;
  args.qkv = step.qkv;
  args.qkv_stride = step.stride;
  args.n_rows = static_cast<std::int64_t>(step.positions.size());
  args.n_heads = step.n_heads;
  args.n_kv_heads = step.n_kv_heads;
  args.head_dim = step.head_dim;
  args.positions = mirror().copy_of(step.positions);
  args.seqs = mirror().row_sequences(step.seqs);
  args.cos_sin = step.cos_sin;
  args.q_out_stride = step.stride;
  args.kv = mirror().copy_of(step.kv, step.seqs.size());
  float* q = step.qkv;
  issue([args, q](CUstream_st* stream) { launch_rope_append(args, q, stream); },
        [&] { return nodes::rope_append(step); });
}

std::unique_ptr<Work> DeviceOperations::attention_work(bool fused, const AttentionArgs& args) {
  if (fused && prefill_takes(args)) return std::make_unique<PrefillAttention>(mirror(), args);
  if (fused) {
    DecodePlans& plans = recording_ == nullptr ? plans_ : recording_->plans();
    return std::make_unique<FusedAttention>(*context_, fused_, mirror(), plans, args);
  }
  AttentionArgs device_args = args;
  device_args.kv = mirror().copy_of(args.kv, args.seqs.size());
  return std::make_unique<NaiveAttention>(*context_, naive_, device_args, args.kv);
}

AttentionWork DeviceOperations::attention(AttentionKind kind, const AttentionArgs& args) {
  check_heads(args);
  const bool fused = kind == AttentionKind::fused && fused_takes(args.head_dim);
  std::unique_ptr<Work> work = attention_work(fused, args);
  if (recording_ != nullptr) {
    const void* scratch = fused ? static_cast<const void*>(&fused_) : &naive_;
    recording_->add_attention(std::move(work), nodes::attention(kind, args, scratch), args, !fused);
    return {};
  }
  work->prepare();
  work->launch(context_->stream());
  return visible_work(args.seqs, args.window);
}

std::size_t DeviceOperations::attention_workspace_bytes(AttentionKind kind, const AttentionArgs& args) const {
  const bool fused = kind == AttentionKind::fused && fused_takes(args.head_dim);
  if (fused && prefill_takes(args)) return 0;
  return fused ? fused_scratch_bytes(args, context_->n_multiprocessors()) : naive_scratch_bytes(args);
}

bool DeviceOperations::rounds_attention(AttentionKind kind, const AttentionArgs& args) const {
  if (args.kv.dtype != DType::bf16) return false;
  const bool fused = kind == AttentionKind::fused && fused_takes(args.head_dim);
  return !fused || prefill_takes(args) || fused_rounds(args);
}

void DeviceOperations::silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) {
  issue([=](CUstream_st* stream) { launch_silu_multiply_elementwise(gate_up, n_rows, width, out, stream); },
        [&] { return nodes::silu_multiply(gate_up, n_rows, width, out); });
}

void DeviceOperations::gelu(float* x, std::int64_t n_values) {
  issue([=](CUstream_st* stream) { launch_gelu(x, n_values, stream); }, [&] { return nodes::gelu(x, n_values); });
}

void DeviceOperations::gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows,
                                   std::int64_t width, float* dst, std::int64_t dst_stride) {
  const std::int64_t* device_rows = mirror().copy_of(rows);
  const auto n_rows = static_cast<std::int64_t>(rows.size());
  issue(
      [=](CUstream_st* stream) {
        launch_copy_rows(src, src_stride, device_rows, n_rows, width, dst, dst_stride, stream);
      },
      [&] { return nodes::gather_rows(src, src_stride, rows, width, dst, dst_stride); });
}

void DeviceOperations::argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int32_t n_choices,
                              std::int32_t* ids) {
  issue([=](CUstream_st* stream) { launch_argmax(logits, stride, n_rows, n_choices, ids, stream); },
        [&] { return nodes::argmax(logits, stride, n_rows, n_choices, ids); });
}

void DeviceOperations::sample(const float* logits, std::int64_t stride, std::int32_t n_choices,
                              std::span<const RowSampling> rows, void* scratch, std::int32_t* ids) {
  issue([=, by_value = std::vector(rows.begin(), rows.end())](
            CUstream_st* stream) { launch_sample(logits, stride, n_choices, by_value, scratch, ids, stream); },
        [&] { return nodes::sample(logits, stride, static_cast<std::int64_t>(rows.size()), n_choices, ids); });
}

std::size_t DeviceOperations::sample_scratch_bytes(std::int64_t n_rows, std::int32_t n_choices) const {
  return cuda::sample_scratch_bytes(n_rows, n_choices);
}

std::string DeviceOperations::product_choices() const { return describe(choices_); }

void DeviceOperations::begin_recording() { recording_ = std::make_unique<DeviceGraph>(context_); }

void DeviceOperations::name_recorded(std::string_view name, std::int64_t layer) {
  if (recording_ != nullptr) recording_->name_last(name, layer);
}

std::unique_ptr<RecordedGraph> DeviceOperations::end_recording() { return std::exchange(recording_, nullptr); }

}  // namespace kvlab::cuda
