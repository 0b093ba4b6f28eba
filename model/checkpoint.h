// Opens what `--model` names: a GGUF file, a Hugging Face folder, or a shape in configs/models with synthetic weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/home.h"
#include "model/model_config.h"
#include "model/tokenizer/tokenizer.h"
#include "model/weight_source.h"

namespace kvlab {

struct Checkpoint {
  ModelConfig config;
  std::string path;  // file or folder; "" for synthetic weights
  bool synthetic = false;
  std::shared_ptr<const WeightSource> weights;  // null when opened with Need::config or Need::tokenizer
  std::shared_ptr<const Tokenizer> tokenizer;   // null when the checkpoint has none
};

/// What the caller is after. `tokenizer` works on files of any architecture; `config` reads no tensor.
enum class Need { config, tokenizer, weights };

/// `model`: a path (as given, then relative to the source root) or a name in configs/models. `seed` draws synthetic
/// weights. Throws InputError naming the file and what is wrong; a name that is neither lists the known names.
Checkpoint open_checkpoint(const std::string& model, Need need, std::uint64_t seed = 1);

/// Names in configs/models, sorted.
std::vector<std::string> synthetic_model_names();

}  // namespace kvlab
