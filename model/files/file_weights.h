// Weights by role from the tensors of a file: the part that does not depend on the file's format.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "model/files/gguf.h"
#include "model/weight_source.h"

namespace kvlab {

/// Where a format keeps one weight.
struct StoredWeight {
  std::string tensor;
  std::int64_t first_row = 0;             // first output feature, in a tensor that holds several weights
  std::int64_t n_rows = 0;                // output features of the whole tensor; 0: those of the weight
  bool transposed = false;                // [n_in, n_out]
  std::int64_t interleaved_head_dim = 0;  // rows are in interleaved RoPE order within heads of so many rows; 0: not
};

using FindTensor = std::function<const TensorInfo*(std::string_view name)>;
using LocateWeight = std::function<StoredWeight(const ModelConfig& config, WeightRole role, std::int64_t layer)>;

class FileWeights : public WeightSource {
 public:
  /// `where` names the file in messages; `find` keeps the file open. Throws InputError naming file and tensor when one
  /// that the configuration calls for is missing, has another shape or a type that cannot be converted.
  FileWeights(ModelConfig config, std::string where, FindTensor find, LocateWeight locate);

  const ModelConfig& config() const override { return config_; }
  HostMatrix read(WeightRole role, std::int64_t layer) const override;

  /// Names of the tensors that the roles use.
  std::vector<std::string> used_tensors() const;

 private:
  /// The tensor behind a stored weight, checked.
  const TensorInfo& checked_tensor(WeightRole role, const StoredWeight& stored) const;
  template <typename Visit>
  void for_each_weight(Visit visit) const;

  ModelConfig config_;
  std::string where_;
  FindTensor find_;
  LocateWeight locate_;
};

/// Throws InputError naming the first tensor of the file that neither a role nor `ignorable` accounts for: leaving it
/// out would change what the model computes.
void refuse_unused_tensors(const FileWeights& weights, const std::vector<TensorInfo>& tensors, const std::string& where,
                           const std::function<bool(std::string_view name)>& ignorable);

}  // namespace kvlab
