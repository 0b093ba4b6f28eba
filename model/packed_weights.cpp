#include "model/packed_weights.h"

#include <initializer_list>
#include <optional>

namespace kvlab {
namespace {

/// Reads roles of one layer and stacks their rows (vectors end to end).
HostMatrix read_stacked(const WeightSource& source, std::initializer_list<WeightRole> roles, std::int64_t layer) {
  HostMatrix all;
  for (const WeightRole role : roles) {
    HostMatrix part = source.read(role, layer);
    all.rows += part.rows;
    all.cols = part.cols;
    if (all.values.empty()) {
      all.values = std::move(part.values);
    } else {
      all.values.insert(all.values.end(), part.values.begin(), part.values.end());
    }
  }
  return all;
}

/// The formulas of the roles' rows, when every one of them has one.
std::vector<RandomRows> drawn_rows(const WeightSource& source, std::initializer_list<WeightRole> roles,
                                   std::int64_t layer) {
  std::vector<RandomRows> parts;
  for (const WeightRole role : roles) {
    const std::optional<RandomValues> values = source.drawn(role, layer);
    if (!values) return {};
    parts.push_back({*values, role_shape(source.config(), role).rows});
  }
  return parts;
}

class Packer {
 public:
  Packer(const WeightSource& source, const Variant& variant, Operations& ops)
      : source_(source), config_(source.config()), variant_(variant), ops_(ops) {}

  PackedVector vector(std::initializer_list<WeightRole> roles, std::int64_t layer = 0) const {
    if (!has_role(config_, *roles.begin())) return {};
    return PackedVector(ops_, read_stacked(source_, roles, layer).values);
  }

  /// The rows of the roles in one matrix: drawn by the backend if it can, else handed over.
  std::unique_ptr<PackedMatrix> matrix(std::initializer_list<WeightRole> roles, std::int64_t layer = 0) const {
    if (const std::vector<RandomRows> parts = drawn_rows(source_, roles, layer); !parts.empty()) {
      const std::int64_t n_in = role_shape(config_, *roles.begin()).cols;
      if (auto packed = ops_.pack_random_matrix(parts, n_in, variant_.weight_dtype)) return packed;
    }
    return ops_.pack_matrix(read_stacked(source_, roles, layer), variant_.weight_dtype);
  }

  /// The token embedding as a table and, where it is tied and the backend wants it in another form, as the head; read
  /// once where it is handed over.
  void embedding(PackedWeights& packed) const {
    constexpr WeightRole kRole = WeightRole::token_embedding;
    const bool head_too = config_.tied_embedding && !ops_.tables_multiply();
    packed.token_embedding = drawn_table(kRole);
    if (packed.token_embedding != nullptr) {
      if (head_too) packed.own_lm_head = matrix({kRole});
      return;
    }
    const HostMatrix values = source_.read(kRole, 0);
    packed.token_embedding = ops_.pack_table(values, variant_.weight_dtype);
    if (head_too) packed.own_lm_head = ops_.pack_matrix(values, variant_.weight_dtype);
  }

  std::unique_ptr<PackedMatrix> positions() const {
    constexpr WeightRole kRole = WeightRole::position_embedding;
    if (auto drawn = drawn_table(kRole)) return drawn;
    return ops_.pack_table(source_.read(kRole, 0), variant_.weight_dtype);
  }

  PackedLinear linear(std::initializer_list<WeightRole> roles, std::initializer_list<WeightRole> bias_roles,
                      std::int64_t layer) const {
    return {matrix(roles, layer), vector(bias_roles, layer)};
  }

  PackedQkv qkv(std::int64_t layer) const {
    using enum WeightRole;
    PackedQkv packed;
    const bool pruned = variant_.prune == PruneKind::last_layer && layer == config_.n_layers - 1;
    if (variant_.projection == ProjectionKind::separate) {
      packed.q = linear({q}, {q_bias}, layer);
      packed.k = linear({k}, {k_bias}, layer);
      packed.v = linear({v}, {v_bias}, layer);
    } else if (pruned) {
      packed.q = linear({q}, {q_bias}, layer);
      packed.kv = linear({k, v}, {k_bias, v_bias}, layer);
    } else {
      packed.joined = linear({q, k, v}, {q_bias, k_bias, v_bias}, layer);
    }
    return packed;
  }

  PackedLayer layer(std::int64_t l) const {
    using enum WeightRole;
    PackedLayer packed;
    packed.attention_norm = vector({attention_norm}, l);
    packed.attention_norm_bias = vector({attention_norm_bias}, l);
    packed.qkv = qkv(l);
    packed.q_norm = vector({q_norm}, l);
    packed.k_norm = vector({k_norm}, l);
    packed.attention_output = linear({attention_output}, {attention_output_bias}, l);
    packed.mlp_norm = vector({mlp_norm}, l);
    packed.mlp_norm_bias = vector({mlp_norm_bias}, l);
    packed.up = config_.family == Family::llama ? linear({gate, up}, {up_bias}, l) : linear({up}, {up_bias}, l);
    packed.down = linear({down}, {down_bias}, l);
    return packed;
  }

 private:
  /// Null when the role has no formula, or the backend wants its values.
  std::unique_ptr<PackedMatrix> drawn_table(WeightRole role) const {
    const std::vector<RandomRows> parts = drawn_rows(source_, {role}, 0);
    if (parts.empty()) return nullptr;
    return ops_.pack_random_table(parts, role_shape(config_, role).cols, variant_.weight_dtype);
  }

  const WeightSource& source_;
  const ModelConfig& config_;
  const Variant& variant_;
  Operations& ops_;
};

}  // namespace

PackedVector::PackedVector(Operations& ops, const std::vector<float>& values)
    : buffer_(ops.allocate(values.size() * sizeof(float), "a norm's weight or a bias")),
      size_(static_cast<std::int64_t>(values.size())) {
  ops.upload(buffer_->data(), values.data(), values.size() * sizeof(float));
}

PackedWeights pack_weights(const WeightSource& source, const Variant& variant, Operations& ops,
                           const std::function<void(std::int64_t, std::int64_t)>& progress) {
  using enum WeightRole;
  const ModelConfig& config = source.config();
  const Packer packer(source, variant, ops);
  PackedWeights packed;
  packer.embedding(packed);
  if (!config.tied_embedding) packed.own_lm_head = packer.matrix({lm_head});
  if (config.family == Family::gpt2) {
    packed.position_embedding = packer.positions();
  }
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    packed.layers.push_back(packer.layer(l));
    if (progress) progress(l + 1, config.n_layers);
  }
  packed.final_norm = packer.vector({final_norm});
  packed.final_norm_bias = packer.vector({final_norm_bias});
  return packed;
}

}  // namespace kvlab
