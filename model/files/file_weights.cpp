// Slices, transposes and reorders rows while reading, so that every format comes out the same.
#include "model/files/file_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernels/error.h"
#include "model/files/byte_reader.h"
#include "model/files/tensor_values.h"

namespace kvlab {
namespace {

bool is_matrix(WeightRole role) {
  switch (role) {
    case WeightRole::token_embedding:
    case WeightRole::position_embedding:
    case WeightRole::q:
    case WeightRole::k:
    case WeightRole::v:
    case WeightRole::attention_output:
    case WeightRole::gate:
    case WeightRole::up:
    case WeightRole::down:
    case WeightRole::lm_head:
      return true;
    default:
      return false;
  }
}

/// A weight seen as output features: a vector is a matrix [n, 1].
RoleShape feature_shape(const ModelConfig& config, WeightRole role) {
  const RoleShape shape = role_shape(config, role);
  return is_matrix(role) ? shape : RoleShape{shape.cols, 1};
}

std::vector<std::int64_t> expected_shape(WeightRole role, const RoleShape& weight, const StoredWeight& stored) {
  const std::int64_t n_rows = stored.n_rows == 0 ? weight.rows : stored.n_rows;
  if (!is_matrix(role)) return {n_rows};
  if (stored.transposed) return {weight.cols, n_rows};
  return {n_rows, weight.cols};
}

/// Reads columns [first_row, first_row + rows) of a tensor [n_in, n_rows] as rows.
void read_transposed(const TensorInfo& tensor, const StoredWeight& stored, const RoleShape& shape, float* out) {
  std::vector<float> line(static_cast<std::size_t>(shape.rows));  // one input feature, all wanted output features
  for (std::int64_t in = 0; in < shape.cols; ++in) {
    read_values(tensor, in * tensor.shape[1] + stored.first_row, line);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      out[row * shape.cols + in] = line[static_cast<std::size_t>(row)];
    }
  }
}

/// Rows 2i and 2i + 1 of a head in the file are a RoPE pair; they become rows i and i + head_dim / 2.
void split_pairs(std::int64_t head_dim, const RoleShape& shape, std::vector<float>& values) {
  std::vector<float> head(static_cast<std::size_t>(head_dim * shape.cols));
  for (std::int64_t first = 0; first < shape.rows; first += head_dim) {
    float* rows = values.data() + first * shape.cols;
    std::copy_n(rows, head.size(), head.begin());
    for (std::int64_t row = 0; row < head_dim; ++row) {
      const std::int64_t target = row / 2 + (row % 2) * (head_dim / 2);
      std::copy_n(head.data() + row * shape.cols, shape.cols, rows + target * shape.cols);
    }
  }
}

}  // namespace

FileWeights::FileWeights(ModelConfig config, std::string where, FindTensor find, LocateWeight locate)
    : config_(std::move(config)), where_(std::move(where)), find_(std::move(find)), locate_(std::move(locate)) {
  for_each_weight([this](WeightRole role, const StoredWeight& stored) { checked_tensor(role, stored); });
}

template <typename Visit>
void FileWeights::for_each_weight(Visit visit) const {
  for (const WeightRole role : all_weight_roles()) {
    if (!has_role(config_, role)) continue;
    const std::int64_t n_layers = is_layer_role(role) ? config_.n_layers : 1;
    for (std::int64_t layer = 0; layer < n_layers; ++layer) visit(role, locate_(config_, role, layer));
  }
}

const TensorInfo& FileWeights::checked_tensor(WeightRole role, const StoredWeight& stored) const {
  const TensorInfo* tensor = find_(stored.tensor);
  if (tensor == nullptr) {
    const char* hint = role == WeightRole::lm_head ? " and the embedding is not tied to the output" : "";
    throw InputError(fmt::format("{}: tensor {} is missing{}", where_, in_quotes(stored.tensor), hint));
  }
  const std::vector<std::int64_t> expected = expected_shape(role, feature_shape(config_, role), stored);
  if (tensor->shape != expected) {
    throw InputError(fmt::format("{}: tensor {} has shape [{}], but the configuration calls for [{}]", where_,
                                 in_quotes(stored.tensor), fmt::join(tensor->shape, ", "), fmt::join(expected, ", ")));
  }
  if (!can_read_values(tensor->type)) {
    throw InputError(fmt::format("{}: tensor {} has type {}, which cannot be converted", where_,
                                 in_quotes(stored.tensor), tensor->type));
  }
  return *tensor;
}

HostMatrix FileWeights::read(WeightRole role, std::int64_t layer) const {
  if (!has_role(config_, role)) {
    throw InputError(fmt::format("{}: this model has no weight {}", where_, role_name(role)));
  }
  const StoredWeight stored = locate_(config_, role, layer);
  const TensorInfo& tensor = checked_tensor(role, stored);
  const RoleShape features = feature_shape(config_, role);
  const RoleShape shape = role_shape(config_, role);
  HostMatrix out(shape.rows, shape.cols);
  if (stored.transposed) {
    read_transposed(tensor, stored, features, out.values.data());
  } else {
    read_values(tensor, stored.first_row * features.cols, out.values);
  }
  if (stored.interleaved_head_dim != 0) split_pairs(stored.interleaved_head_dim, features, out.values);
  return out;
}

std::vector<std::string> FileWeights::used_tensors() const {
  std::vector<std::string> names;
  for_each_weight([&names](WeightRole, const StoredWeight& stored) { names.push_back(stored.tensor); });
  return names;
}

void refuse_unused_tensors(const FileWeights& weights, const std::vector<TensorInfo>& tensors, const std::string& where,
                           const std::function<bool(std::string_view name)>& ignorable) {
  const std::vector<std::string> names = weights.used_tensors();
  const std::set<std::string_view> used(names.begin(), names.end());
  for (const TensorInfo& tensor : tensors) {
    if (used.contains(tensor.name) || ignorable(tensor.name)) continue;
    throw InputError(fmt::format("{}: holds tensor {}, which is no part of a {} model of this configuration", where,
                                 in_quotes(tensor.name), weights.config().architecture));
  }
}

}  // namespace kvlab
