// oneDNN matmul primitives, keyed by shape, strides and flags, over weights in the layout chosen by `any`.
#include "kernels/cpu/packed_f32.h"

#include <omp.h>

#include <algorithm>
#include <compare>
#include <deque>
#include <dnnl.hpp>
#include <map>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/threads.h"

namespace kvlab::cpu {
namespace {

using dnnl::memory;

// Recomputing without a cache meets a new row count every step; beyond this the prepared products are dropped.
constexpr std::size_t kMaxPrepared = 8192;
// Output features that parts of a plain layout are multiples of: a cache line.
constexpr std::int64_t kFeatureRound = 16;
// The row count whose preferred weight layout is taken: larger than decode, smaller than most prompts.
constexpr std::int64_t kLayoutRows = 16;

struct ProductKey {
  std::int64_t n_out, n_in, n_rows, x_stride, y_stride;
  std::int64_t weight_strides[2];  // of the layout: a part of a matrix has those of the whole
  bool bias, accumulate;
  int n_threads;
  auto operator<=>(const ProductKey&) const = default;
};

struct Product {
  dnnl::matmul primitive;
  memory x, y, bias, scratch;
  std::unordered_map<int, memory> arguments;
  std::int64_t scratch_floats;
};

/// Products that one thread at a time executes. oneDNN's own scratch belongs to the thread that prepares a product, and
/// lanes of a graph are prepared by another: hence scratch of ours.
struct ProductLane {
  explicit ProductLane(const dnnl::engine& engine) : stream(engine) {}
  dnnl::stream stream;
  std::map<ProductKey, std::shared_ptr<Product>> products;
  Scratch scratch;  // of the product that runs
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
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  if (!key.bias) return {dnnl::matmul::desc(x, weight, y), attributes, engine};
  return {dnnl::matmul::desc(x, weight, matrix_desc(1, key.n_out, key.n_out), y), attributes, engine};
}

ProductKey dense_key(std::int64_t n_out, std::int64_t n_in, std::int64_t n_rows, int n_threads) {
  return {n_out, n_in, n_rows, n_in, n_out, {0, 0}, false, false, n_threads};
}

/// The key of `args` against a weight in `layout`, on `n_threads` of oneDNN's.
ProductKey key_of(const ProductArgs& args, const memory::desc& layout, int n_threads) {
  const std::int64_t n_in = layout.data.dims[0];
  const std::int64_t n_out = layout.data.dims[1];
  const auto& strides = layout.data.format_desc.blocking.strides;
  const bool one_row = args.n_rows == 1;
  return {n_out,
          n_in,
          args.n_rows,
          one_row ? n_in : args.x_stride,
          one_row ? n_out : args.y_stride,
          {strides[0], strides[1]},
          args.bias != nullptr,
          args.accumulate,
          n_threads};
}

/// Output features of which a part of a weight must be a multiple: parts start where a block does.
std::int64_t feature_round(const memory::desc& layout) {
  const auto& blocking = layout.data.format_desc.blocking;
  std::int64_t block = 1;
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    if (blocking.inner_idxs[i] == 1) block *= blocking.inner_blks[i];
  }
  return std::max(block, kFeatureRound);
}

}  // namespace

struct F32Products::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::deque<ProductLane> lanes;  // [most lanes so far]

  ProductLane& lane(int index) {
    while (static_cast<int>(lanes.size()) <= index) lanes.emplace_back(engine);
    return lanes[static_cast<std::size_t>(index)];
  }

  memory::desc weight_layout(std::int64_t n_out, std::int64_t n_in) const {
    return describe(engine, dense_key(n_out, n_in, kLayoutRows, 1), any_weight_desc(n_out, n_in)).weights_desc();
  }

  std::shared_ptr<Product> product(ProductLane& lane, const ProductKey& key, const memory::desc& weight) {
    if (const auto found = lane.products.find(key); found != lane.products.end()) return found->second;
    if (lane.products.size() >= kMaxPrepared) lane.products.clear();
    const auto description = describe(engine, key, weight);
    auto product = std::make_shared<Product>(Product{dnnl::matmul(description),
                                                     memory(description.src_desc(), engine, nullptr),
                                                     memory(description.dst_desc(), engine, nullptr),
                                                     {},
                                                     memory(description.scratchpad_desc(), engine, nullptr),
                                                     {},
                                                     0});
    const std::size_t scratch_bytes = description.scratchpad_desc().get_size();
    product->scratch_floats = static_cast<std::int64_t>((scratch_bytes + sizeof(float) - 1) / sizeof(float));
    product->arguments = {
        {DNNL_ARG_SRC, product->x}, {DNNL_ARG_DST, product->y}, {DNNL_ARG_SCRATCHPAD, product->scratch}};
    if (key.bias) {
      product->bias = memory(description.bias_desc(), engine, nullptr);
      product->arguments[DNNL_ARG_BIAS] = product->bias;
    }
    lane.scratch.reserve(product->scratch_floats);
    return lane.products.emplace(key, std::move(product)).first->second;
  }
};

namespace {

/// oneDNN takes buffers as non-const pointers; it only reads source and bias.
void* readable(const float* data) { return const_cast<float*>(data); }

void execute(ProductLane& lane, Product& product, const memory& weight, const ProductArgs& args) {
  product.x.set_data_handle(readable(args.x));
  product.y.set_data_handle(args.y);
  if (args.bias != nullptr) product.bias.set_data_handle(readable(args.bias));
  if (product.scratch_floats > 0) product.scratch.set_data_handle(lane.scratch.data());
  product.arguments[DNNL_ARG_WEIGHTS] = weight;
  product.primitive.execute(lane.stream, product.arguments);
  lane.stream.wait();
}

/// A product cut by output features, each part a product of one thread over a part of the packed weight.
class F32Task final : public Task {
 public:
  Lanes prepare() override { return {static_cast<int>(parts_.size()), 0}; }
  void run(int /*stage*/, Share share) override {
    const Part& part = parts_[static_cast<std::size_t>(share.lane)];
    execute(part.lane, *part.product, part.weight, part.args);
  }

  /// The features from `first` on of a product by the weight `layout` at `values`, of which `part` is the layout.
  void add_part(const std::shared_ptr<F32Products::State>& state, const memory::desc& part, float* values,
                std::int64_t first, ProductArgs args) {
    ProductLane& lane = state->lane(static_cast<int>(parts_.size()));
    args.y += first;
    if (args.bias != nullptr) args.bias += first;
    parts_.push_back(
        {lane, state->product(lane, key_of(args, part, 1), part), memory(part, state->engine, values), args});
  }

 private:
  struct Part {
    ProductLane& lane;
    std::shared_ptr<Product> product;
    memory weight;
    ProductArgs args;
  };
  std::vector<Part> parts_;
};

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
    dnnl::stream stream(state_->engine);
    dnnl::reorder(source, packed_).execute(stream, source, packed_);
    stream.wait();
  }

  std::int64_t n_out() const override { return n_out_; }
  std::int64_t n_in() const override { return n_in_; }
  DType dtype() const override { return DType::f32; }

  void multiply(const ProductArgs& args, int n_threads) const override {
    const int threads = threads_for(args.n_rows * n_out_ * n_in_, n_threads, n_threads);
    // oneDNN takes its team from OpenMP's setting for this thread, at preparation and at execution.
    omp_set_num_threads(threads);
    ProductLane& lane = state_->lane(0);
    execute(lane, *state_->product(lane, key_of(args, layout_, threads), layout_), packed_, args);
    omp_set_num_threads(n_threads);
  }

  std::unique_ptr<Task> record(const ProductArgs& args, int n_threads) const override {
    const std::int64_t round = feature_round(layout_);
    const std::int64_t n_blocks = (n_out_ + round - 1) / round;
    const int n_lanes = threads_for(args.n_rows * n_out_ * n_in_, n_blocks, n_threads);
    omp_set_num_threads(1);  // oneDNN prepares each part for one thread
    std::unique_ptr<F32Task> task;
    try {
      task = cut(args, round, n_blocks, n_lanes);
    } catch (const dnnl::error&) {  // a layout of which oneDNN multiplies no part
      task = cut(args, round, n_blocks, 1);
    }
    omp_set_num_threads(n_threads);
    return task;
  }

 private:
  /// A task of `n_lanes` parts, each of whole blocks of `round` features.
  std::unique_ptr<F32Task> cut(const ProductArgs& args, std::int64_t round, std::int64_t n_blocks, int n_lanes) const {
    auto task = std::make_unique<F32Task>();
    for (int i = 0; i < n_lanes; ++i) {
      const ItemRange blocks = part_of(n_blocks, {i, n_lanes});
      const std::int64_t first = blocks.first * round;
      memory::desc part = layout_.submemory_desc({n_in_, std::min(blocks.last * round, n_out_) - first}, {0, first});
      float* values = static_cast<float*>(packed_.get_data_handle()) + std::exchange(part.data.offset0, 0);
      task->add_part(state_, part, values, first, args);
    }
    return task;
  }

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

std::size_t F32Products::n_prepared() const {
  std::size_t n = 0;
  for (const ProductLane& lane : state_->lanes) n += lane.products.size();
  return n;
}

}  // namespace kvlab::cpu
