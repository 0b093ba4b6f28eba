// oneDNN matmul primitives, keyed by shape, strides and flags, over weights in the layout chosen by `any`.
#include "kernels/cpu/packed_f32.h"

#include <omp.h>

#include <compare>
#include <dnnl.hpp>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/threads.h"

namespace kvlab::cpu {
namespace {

using dnnl::memory;

// Recomputing without a cache meets a new row count every step; beyond this the prepared products are dropped.
constexpr std::size_t kMaxPrepared = 8192;
// The row count whose preferred weight layout is taken: larger than decode, smaller than most prompts.
constexpr std::int64_t kLayoutRows = 16;

struct ProductKey {
  std::int64_t n_out, n_in, n_rows, x_stride, y_stride;
  bool bias, accumulate;
  int n_threads;
  auto operator<=>(const ProductKey&) const = default;
};

struct Product {
  dnnl::matmul primitive;
  memory x, y, bias;
  std::unordered_map<int, memory> arguments;
};

memory::desc matrix_desc(std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return {memory::dims{rows, cols}, memory::data_type::f32, memory::dims{stride, 1}};
}

/// oneDNN sees the weight as [n_in, n_out].
memory::desc any_weight_desc(std::int64_t n_out, std::int64_t n_in) {
  return {memory::dims{n_in, n_out}, memory::data_type::f32, memory::format_tag::any};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const ProductKey& key, const memory::desc& weight) {
  const memory::desc x = matrix_desc(key.n_rows, key.n_in, key.x_stride);
  const memory::desc y = matrix_desc(key.n_rows, key.n_out, key.y_stride);
  dnnl::primitive_attr attributes;
  if (key.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  if (!key.bias) return {dnnl::matmul::desc(x, weight, y), attributes, engine};
  return {dnnl::matmul::desc(x, weight, matrix_desc(1, key.n_out, key.n_out), y), attributes, engine};
}

ProductKey dense_key(std::int64_t n_out, std::int64_t n_in, std::int64_t n_rows, int n_threads) {
  return {n_out, n_in, n_rows, n_in, n_out, false, false, n_threads};
}

}  // namespace

struct F32Products::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<ProductKey, Product> products;

  memory::desc weight_layout(std::int64_t n_out, std::int64_t n_in) const {
    return describe(engine, dense_key(n_out, n_in, kLayoutRows, 1), any_weight_desc(n_out, n_in)).weights_desc();
  }

  Product& product(const ProductKey& key, const memory::desc& weight) {
    if (const auto found = products.find(key); found != products.end()) return found->second;
    if (products.size() >= kMaxPrepared) products.clear();
    const auto description = describe(engine, key, weight);
    Product product{dnnl::matmul(description),
                    memory(description.src_desc(), engine, nullptr),
                    memory(description.dst_desc(), engine, nullptr),
                    {},
                    {}};
    product.arguments = {{DNNL_ARG_SRC, product.x}, {DNNL_ARG_DST, product.y}};
    if (key.bias) {
      product.bias = memory(description.bias_desc(), engine, nullptr);
      product.arguments[DNNL_ARG_BIAS] = product.bias;
    }
    return products.emplace(key, std::move(product)).first->second;
  }
};

namespace {

/// oneDNN takes buffers as non-const pointers; it only reads source and bias.
void* readable(const float* data) { return const_cast<float*>(data); }

class PackedF32 final : public CpuMatrix {
 public:
  PackedF32(std::shared_ptr<F32Products::State> state, const HostMatrix& weight)
      : state_(std::move(state)),
        n_out_(weight.rows),
        n_in_(weight.cols),
        layout_(state_->weight_layout(n_out_, n_in_)),
        storage_(layout_.get_size()),
        packed_(layout_, state_->engine, storage_.data()) {
    const memory::desc plain(memory::dims{n_in_, n_out_}, memory::data_type::f32, memory::dims{1, n_in_});
    memory source(plain, state_->engine, readable(weight.values.data()));
    dnnl::reorder(source, packed_).execute(state_->stream, source, packed_);
    state_->stream.wait();
  }

  std::int64_t n_out() const override { return n_out_; }
  std::int64_t n_in() const override { return n_in_; }
  DType dtype() const override { return DType::f32; }

  void multiply(const ProductArgs& args, int n_threads) const override {
    const int threads = threads_for(args.n_rows * n_out_ * n_in_, n_threads, n_threads);
    // oneDNN takes its team from OpenMP's setting for this thread, at preparation and at execution.
    omp_set_num_threads(threads);
    const bool one_row = args.n_rows == 1;
    const ProductKey key{n_out_,
                         n_in_,
                         args.n_rows,
                         one_row ? n_in_ : args.x_stride,
                         one_row ? n_out_ : args.y_stride,
                         args.bias != nullptr,
                         args.accumulate,
                         threads};
    Product& product = state_->product(key, layout_);
    product.x.set_data_handle(readable(args.x));
    product.y.set_data_handle(args.y);
    if (args.bias != nullptr) product.bias.set_data_handle(readable(args.bias));
    product.arguments[DNNL_ARG_WEIGHTS] = packed_;
    product.primitive.execute(state_->stream, product.arguments);
    state_->stream.wait();
    omp_set_num_threads(n_threads);
  }

 private:
  std::shared_ptr<F32Products::State> state_;
  std::int64_t n_out_;
  std::int64_t n_in_;
  memory::desc layout_;
  AlignedBuffer storage_;  // the weight in `layout_`
  memory packed_;
};

}  // namespace

F32Products::F32Products() : state_(std::make_shared<State>()) {}
F32Products::~F32Products() = default;

std::unique_ptr<CpuMatrix> F32Products::pack(const HostMatrix& weight) {
  return std::make_unique<PackedF32>(state_, weight);
}

std::string F32Products::implementation(std::int64_t n_out, std::int64_t n_in, std::int64_t n_rows) {
  return describe(state_->engine, dense_key(n_out, n_in, n_rows, 1), state_->weight_layout(n_out, n_in))
      .impl_info_str();
}

std::size_t F32Products::n_prepared() const { return state_->products.size(); }

}  // namespace kvlab::cpu
