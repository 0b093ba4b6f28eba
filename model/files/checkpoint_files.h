// From files to configuration and weights: config.json + safetensors, and GGUF.
#pragma once

#include <memory>
#include <string>

#include "model/files/gguf.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace kvlab {

/// From a config.json (Hugging Face keys). Throws InputError naming file and key; `notes` receives remarks on ignored
/// keys.
ModelConfig config_from_json(const std::string& path, std::vector<std::string>* notes = nullptr);
/// From GGUF metadata. Throws InputError naming an unsupported architecture or the key at fault.
ModelConfig config_from_gguf(const GgufFile& file);

std::unique_ptr<WeightSource> weights_from_folder(const std::string& folder, const ModelConfig& config);
std::unique_ptr<WeightSource> weights_from_gguf(std::shared_ptr<const GgufFile> file, const ModelConfig& config);

}  // namespace kvlab
