#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "model/files/checkpoint_files.h"
#include "model/home.h"

namespace kvlab {
namespace {

namespace fs = std::filesystem;

fs::path models_folder() { return fs::path(kvlab_home()) / "configs" / "models"; }

/// Ids that end a generation are those of the configuration and those of the tokenizer.
void join_tokenizer_policy(Checkpoint& checkpoint) {
  if (checkpoint.tokenizer == nullptr) return;
  std::vector<std::int32_t>& eos = checkpoint.config.eos_ids;
  for (const std::int32_t id : checkpoint.tokenizer->eos_ids()) {
    if (std::find(eos.begin(), eos.end(), id) == eos.end()) eos.push_back(id);
  }
  if (checkpoint.tokenizer->bos_id()) checkpoint.config.bos_id = checkpoint.tokenizer->bos_id();
}

Checkpoint open_gguf(const fs::path& path, Need need) {
  const std::shared_ptr<const GgufFile> file = GgufFile::open(path.string());
  Checkpoint checkpoint;
  checkpoint.path = path.string();
  checkpoint.tokenizer = tokenizer_from_gguf(*file);
  if (need == Need::tokenizer) return checkpoint;
  checkpoint.config = config_from_gguf(*file);
  checkpoint.config.name = path.stem().string();
  if (need == Need::weights) checkpoint.weights = weights_from_gguf(file, checkpoint.config);
  join_tokenizer_policy(checkpoint);
  return checkpoint;
}

Checkpoint open_folder(const fs::path& folder, Need need) {
  Checkpoint checkpoint;
  checkpoint.path = folder.string();
  checkpoint.tokenizer = tokenizer_from_folder(folder.string());
  if (need == Need::tokenizer) return checkpoint;
  checkpoint.config = config_from_json((folder / "config.json").string());
  checkpoint.config.name = fs::canonical(folder).filename().string();
  if (need == Need::weights) checkpoint.weights = weights_from_folder(folder.string(), checkpoint.config);
  join_tokenizer_policy(checkpoint);
  return checkpoint;
}

/// A name in configs/models: a shape for synthetic weights, or {"checkpoint": FOLDER} beside it.
Checkpoint open_name(const fs::path& file, const std::string& name, Need need, std::uint64_t seed) {
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (json.is_object() && json.contains("checkpoint")) {
    if (!json["checkpoint"].is_string())
      throw InputError(fmt::format("{}: checkpoint must be a folder's name", file.string()));
    return open_folder(file.parent_path() / json["checkpoint"].get<std::string>(), need);
  }
  Checkpoint checkpoint;
  checkpoint.synthetic = true;
  if (need == Need::tokenizer) return checkpoint;
  checkpoint.config = config_from_json(file.string());
  checkpoint.config.name = name;
  if (need == Need::weights) checkpoint.weights = make_synthetic_weights(checkpoint.config, seed);
  return checkpoint;
}

bool starts_like_gguf(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  char magic[4] = {};
  stream.read(magic, 4);
  return std::string_view(magic, 4) == "GGUF";
}

Checkpoint open_path(const fs::path& path, Need need) {
  if (fs::is_directory(path)) {
    if (!fs::exists(path / "config.json") && !(need == Need::tokenizer && fs::exists(path / "tokenizer.json"))) {
      throw InputError(fmt::format("{}: a model folder needs config.json, and there is none", path.string()));
    }
    return open_folder(path, need);
  }
  if (starts_like_gguf(path)) return open_gguf(path, need);
  throw InputError(fmt::format(
      "{}: not a GGUF file (it does not begin with GGUF); a safetensors model is named by its folder", path.string()));
}

}  // namespace

std::vector<std::string> synthetic_model_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(models_folder())) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Checkpoint open_checkpoint(const std::string& model, Need need, std::uint64_t seed) {
  if (model.empty()) throw InputError("--model is empty: give a GGUF file, a folder or a name of `kvlab list models`");
  const bool is_plain_name = model.find('/') == std::string::npos;
  const fs::path named = models_folder() / (model + ".json");
  if (is_plain_name && fs::exists(named)) return open_name(named, model, need, seed);
  if (fs::exists(model)) return open_path(model, need);
  const fs::path at_home = fs::path(kvlab_home()) / model;
  if (fs::exists(at_home)) return open_path(at_home, need);
  std::string known;
  for (const std::string& name : synthetic_model_names()) known += (known.empty() ? "" : ", ") + name;
  throw InputError(
      fmt::format("--model {}: no such file or folder here or in {}, and no such name in configs/models ({}). "
                  "scripts/fetch_model.py smollm2 fetches a real model.",
                  model, kvlab_home(), known));
}

}  // namespace kvlab
