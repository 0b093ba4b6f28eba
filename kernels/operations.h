// The operation table: everything the transformer asks of a backend. Views in, views out; no models, files or clocks.
// Activations are f32, row-major, [n_rows, features] with an explicit row stride where rows may be parts of wider ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/device_probes.h"
#include "kernels/dtype.h"
#include "kernels/host_matrix.h"
#include "kernels/random_kv.h"
#include "kernels/recorded_graph.h"
#include "kernels/sampling.h"
#include "kernels/transfers.h"
#include "kernels/views.h"

namespace kvlab {

/// A weight [n_out, n_in] in the layout its backend likes. Made once at load; nobody else looks inside.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual std::int64_t n_out() const = 0;
  virtual std::int64_t n_in() const = 0;
  virtual DType dtype() const = 0;
};

/// Device-accessible memory, 64-byte aligned, zeroed, freed with the object.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual std::size_t bytes() const = 0;
};

/// Rows of a weight that a formula gives: element (r, c) is its number r * n_in + c.
struct RandomRows {
  RandomValues values;
  std::int64_t n_rows = 0;
};

/// Bytes on their way to the host.
class PendingCopy {
 public:
  virtual ~PendingCopy() = default;
  /// The bytes, once they are there; good as long as this object.
  virtual const void* wait() = 0;
};

/// A moment in the order of a device's work.
class TimeMark {
 public:
  virtual ~TimeMark() = default;
  /// Device seconds from an earlier mark of the same backend, once both have passed; waits for this one. Nothing where
  /// the device has no clock.
  virtual std::optional<double> since_s(const TimeMark& earlier) = 0;
};

enum class AttentionKind { naive, fused };

/// A product with what a transformer of the llama family puts around it: y = rms_norm(x) W^T (+ bias), or where gates
/// and ups are the halves of that, y = silu(gates) * ups.
struct FusedProduct {
  const PackedMatrix* weight = nullptr;  // [n_out, n_in]; with a gate the rows of the gates, then those of the ups
  const float* x = nullptr;              // [n_rows, n_in], dense
  std::int64_t n_rows = 0;
  const float* norm_weight = nullptr;  // [n_in]
  float norm_eps = 0.0F;
  const float* bias = nullptr;  // [n_out] or null
  float* y = nullptr;           // [n_rows, n_out], with a gate [n_rows, n_out / 2]; dense
  float* normed = nullptr;      // [n_rows, n_in] scratch
  float* gate_up = nullptr;     // [n_rows, n_out] scratch; null: there is no gate
};

/// A step's projections on their way to attention: rows [n_rows, (n_heads + 2 n_kv_heads) * head_dim] of Q, K and V.
struct RopeAppend {
  float* qkv = nullptr;
  std::int64_t stride = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::span<const std::int32_t> positions;  // [n_rows]
  const float* cos_sin = nullptr;           // as for `rope`
  std::span<const SequenceSpan> seqs;       // [n_seqs], together all rows in order
  KvView kv;
};

/// What a backend runs in one operation though the table has an operation for each part.
struct Fusions {
  std::int64_t product_rows = 0;  // `fused_matmul` is worth calling for at most so many rows
  bool rope_append = false;
};

class Operations {
 public:
  virtual ~Operations() = default;

  /// Throws std::bad_alloc when the memory is not there.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  /// The same for memory that has a name ("K cache"). Throws OutOfMemory with the name and the bytes.
  std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view name);

  /// Copies between the host's memory and a buffer's; done when they return.
  virtual void upload(void* to, const void* from, std::size_t bytes);
  virtual void download(void* to, const void* from, std::size_t bytes);
  /// Brings what a buffer holds after the operations issued so far, and returns at once. Here: copied already.
  virtual std::unique_ptr<PendingCopy> start_download(const void* from, std::size_t bytes);
  /// The moment after the operations issued so far; null where the host's clock tells all there is (the CPU).
  virtual std::unique_ptr<TimeMark> mark();
  /// What crossed between host and device so far: nothing where a buffer is the host's own memory.
  virtual Transfers transfers() const;

  /// Says that host arrays which operations are given (ids, positions, spans, tables) may differ from now on; until the
  /// next call they stay as they are, so that a backend may copy each of them once.
  virtual void begin_step();

  /// Packs a weight [n_out, n_in] for `matmul`, rounding to `storage`.
  virtual std::unique_ptr<PackedMatrix> pack_matrix(const HostMatrix& weight, DType storage) = 0;
  /// Stores a table [n_rows, width] for `embed`, rounding to `storage`.
  virtual std::unique_ptr<PackedMatrix> pack_table(const HostMatrix& table, DType storage) = 0;

  /// Whether `matmul` also takes what pack_table stored, so that a tied embedding need not be there twice.
  virtual bool tables_multiply() const { return false; }

  /// What the two packing functions make of drawn rows, part below part, filled where the weight lives without a copy
  /// from the host. Null, the default: the backend wants the values.
  virtual std::unique_ptr<PackedMatrix> pack_random_matrix(std::span<const RandomRows> parts, std::int64_t n_in,
                                                           DType storage);
  virtual std::unique_ptr<PackedMatrix> pack_random_table(std::span<const RandomRows> parts, std::int64_t n_in,
                                                          DType storage);

  /// out[i, :] (+)= table[ids[i], :]. `out` is [n_ids, width], dense. Ids are checked by the caller; they may be in a
  /// buffer, where nobody could check them: kNoChoice gives a row of NaN.
  virtual void embed(const PackedMatrix& table, std::span<const std::int32_t> ids, float* out, bool accumulate) = 0;

  /// y = x W^T (+ bias) (+ y when `accumulate`). x [n_rows, n_in], y [n_rows, n_out]; bias [n_out] or null.
  virtual void matmul(const PackedMatrix& weight, const float* x, std::int64_t x_stride, std::int64_t n_rows, float* y,
                      std::int64_t y_stride, const float* bias, bool accumulate) = 0;

  /// y = x / rms(x) * weight, row by row; width columns. In place is allowed. rms = sqrt(mean(x^2) + eps).
  virtual void rms_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                        const float* weight, float eps, float* y, std::int64_t y_stride) = 0;
  /// y = (x - mean) / sqrt(var + eps) * weight + bias; population variance.
  virtual void layer_norm(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t width,
                          const float* weight, const float* bias, float eps, float* y, std::int64_t y_stride) = 0;

  /// Rotates pairs (i, i + head_dim/2) of every head of every row in place. x [n_rows, n_heads * head_dim];
  /// positions [n_rows]; cos_sin [n_positions, head_dim]: head_dim/2 cosines, then head_dim/2 sines.
  virtual void rope(float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t n_heads, std::int64_t head_dim,
                    const std::int32_t* positions, const float* cos_sin) = 0;

  /// Writes rows into the cache, rounding to the view's dtype. k, v [n_rows, n_kv_heads * head_dim], stride apart.
  /// Row first_row + i of a sequence goes to position kv_len - n_queries + i.
  /// With `v` null only the K side is written.
  virtual void append(const float* k, const float* v, std::int64_t stride, std::span<const SequenceSpan> seqs,
                      std::int64_t n_kv_heads, std::int64_t head_dim, const KvView& view) = 0;

  /// What may be asked of the two functions below; nothing by default, when they throw std::logic_error.
  virtual Fusions fusions() const;
  virtual void fused_matmul(const FusedProduct& product);
  /// Rotates Q in place and appends rotated K, and V. What the rows of K hold afterwards is left open.
  virtual void rope_append(const RopeAppend& step);

  /// Draws K and V of positions 0 .. n_tokens - 1 of the view's first n_seqs sequences, rounded to its dtype. Never
  /// recorded. Throws InputError where a backend cannot.
  virtual void fill_kv(const RandomKv& values, std::int64_t n_seqs, std::int64_t n_tokens, std::int64_t n_kv_heads,
                       std::int64_t head_dim, const KvView& view);

  /// softmax(q k^T * scale, masked) v. A row that sees no key gives zeros. Executes exactly the visible dot products.
  virtual AttentionWork attention(AttentionKind kind, const AttentionArgs& args) = 0;
  /// Bytes of scratch that `attention` holds for such a call (scores for naive; partial results for fused).
  virtual std::size_t attention_workspace_bytes(AttentionKind kind, const AttentionArgs& args) const = 0;

  /// Where f32 activations are rounded to what the other side of their product is stored in: x of `matmul` to the
  /// weight's dtype; Q and the softmax's weights of such a call of `attention` to the view's.
  virtual bool rounds_product_inputs() const { return false; }
  virtual bool rounds_attention(AttentionKind /*kind*/, const AttentionArgs& /*args*/) const { return false; }

  /// out[:, j] = silu(gate_up[:, j]) * gate_up[:, width + j]. gate_up [n_rows, 2 * width], out [n_rows, width].
  virtual void silu_multiply(const float* gate_up, std::int64_t n_rows, std::int64_t width, float* out) = 0;
  /// x = gelu(x) in place, the tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
  virtual void gelu(float* x, std::int64_t n_values) = 0;

  /// dst[i, :] = src[rows[i], :], width columns.
  virtual void gather_rows(const float* src, std::int64_t src_stride, std::span<const std::int64_t> rows,
                           std::int64_t width, float* dst, std::int64_t dst_stride) = 0;

  /// ids[i] = the first column of the largest value of row i, or kNoChoice (kernels/sampling.h). logits [n_rows,
  /// n_choices], rows stride apart, and ids [n_rows] are in buffers. Here a loop, for backends whose buffers the host
  /// reads.
  virtual void argmax(const float* logits, std::int64_t stride, std::int64_t n_rows, std::int32_t n_choices,
                      std::int32_t* ids);
  /// ids[i] = what sample_row (kernels/sample_row.h) chooses from row i, bit for bit. logits [rows.size(), n_choices],
  /// rows stride apart, ids [rows.size()] and a scratch of sample_scratch_bytes are in buffers; `rows` goes by value.
  /// Here a loop, as for argmax, without scratch.
  virtual void sample(const float* logits, std::int64_t stride, std::int32_t n_choices,
                      std::span<const RowSampling> rows, void* scratch, std::int32_t* ids);
  virtual std::size_t sample_scratch_bytes(std::int64_t n_rows, std::int32_t n_choices) const;

  /// Which code ran products of few rows so far, in words for a report; "" where there is no choice (the CPU).
  virtual std::string product_choices() const;
  /// What the ceilings of a device are measured with; null, the default, where operations run on the host.
  virtual DeviceProbes* probes() { return nullptr; }

  /// From here to end_recording, operations are described instead of run: arguments are kept by value, what they point
  /// to is read when the graph runs, and `attention` returns no work. Throws InputError where a backend cannot.
  virtual void begin_recording();
  /// Names the operations recorded since the last call: what the model calls them, and their layer. Else does nothing.
  virtual void name_recorded(std::string_view name, std::int64_t layer);
  virtual std::unique_ptr<RecordedGraph> end_recording();

  /// An attached profiler records from here to stop_profiler, which waits for what was issued in between. Nothing on a
  /// backend that no profiler knows.
  virtual void start_profiler() {}
  virtual void stop_profiler() {}
};

/// The CPU backend (oneDNN, Highway, OpenMP) on `n_threads` threads (>= 1; else InputError). One caller at a time. It
/// sets the calling thread's OpenMP thread count, which is where oneDNN takes its own from.
std::unique_ptr<Operations> make_cpu_operations(int n_threads);

}  // namespace kvlab
