#include "kernels/cuda/backend/product_timer.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/backend/linear_product.h"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

constexpr int kRuns = 9;
constexpr std::uint8_t kBytes = 0x3C;  // 0x3C3C is 0.0115 as bf16, and 0x3C3C3C3C is as much as f32

/// Two events on the context's stream.
class Stopwatch {
 public:
  explicit Stopwatch(DeviceContext& context)
      : context_(context), from_(context.runtime().make_event()), to_(context.runtime().make_event()) {}
  ~Stopwatch() {
    context_.runtime().destroy_event(from_);
    context_.runtime().destroy_event(to_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  template <class Run>
  std::optional<double> time_s(const Run& run) {
    Runtime& runtime = context_.runtime();
    runtime.record(from_, context_.stream());
    run();
    runtime.record(to_, context_.stream());
    runtime.synchronize(context_.stream());
    return runtime.elapsed_s(from_, to_);
  }

 private:
  DeviceContext& context_;
  CUevent_st* from_;
  CUevent_st* to_;
};

/// One product for each copy of the weight, over values that are neither zero nor NaN.
class Trial {
 public:
  Trial(DeviceContext& context, ScratchMemory& rounded, const ProductShape& shape)
      : context_(context),
        x_(context, static_cast<std::size_t>(shape.n_rows * shape.n_in) * sizeof(float), "input of a trial"),
        y_(context, static_cast<std::size_t>(shape.n_rows * shape.n_out) * sizeof(float), "output of a trial"),
        weights_(context, static_cast<std::size_t>(n_copies(shape) * copy_bytes(shape)), "weights of a trial") {
    for (const DeviceMemory* memory : {&x_, &weights_}) {
      context.runtime().fill(memory->data(), kBytes, memory->bytes(), context.stream());
    }
    const MatrixProduct product = dense_product(shape.n_rows, shape.n_in, shape.n_out, shape.dtype);
    for (std::int64_t i = 0; i < n_copies(shape); ++i) {
      const void* weight = static_cast<const std::byte*>(weights_.data()) + i * copy_bytes(shape);
      products_.emplace_back(context, rounded, product, MatmulOperands{weight, x_.data(), nullptr, y_.data()});
    }
  }

  double n_products() const { return static_cast<double>(products_.size()); }

  /// All products, once as they come, which loads what the engine needs, and then as a graph.
  std::unique_ptr<Graph> recorded(ProductEngine engine) {
    for (LinearProduct& product : products_) product.prepare(engine);
    launch(engine);
    return context_.captured([this, engine](CUstream_st*) { launch(engine); });
  }

 private:
  void launch(ProductEngine engine) const {
    for (const LinearProduct& product : products_) product.launch(engine, context_.stream());
  }

  static std::int64_t copy_bytes(const ProductShape& shape) {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t bytes = shape.n_out * shape.n_in * static_cast<std::int64_t>(dtype_bytes(shape.dtype));
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  static std::int64_t n_copies(const ProductShape& shape) { return cold_copies(copy_bytes(shape)); }

  DeviceContext& context_;
  DeviceMemory x_;        // [n_rows, n_in]
  DeviceMemory y_;        // [n_rows, n_out]
  DeviceMemory weights_;  // [n_copies, copy_bytes]
  std::vector<LinearProduct> products_;
};

}  // namespace

std::optional<double> time_product(DeviceContext& context, ScratchMemory& rounded, const ProductShape& shape,
                                   ProductEngine engine) {
  Stopwatch stopwatch(context);
  if (!stopwatch.time_s([] {})) return std::nullopt;
  try {
    Trial trial(context, rounded, shape);
    const std::unique_ptr<Graph> graph = trial.recorded(engine);
    std::vector<double> runs_s;
    for (int run = 0; run < kRuns; ++run) {
      runs_s.push_back(*stopwatch.time_s([&] { graph->launch(context.stream()); }));
    }
    std::sort(runs_s.begin(), runs_s.end());
    return runs_s[kRuns / 2] / trial.n_products();
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

}  // namespace kvlab::cuda
