// kvlab list: the models, variants and devices that the other commands take.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/commands/commands.h"
#include "harness/devices.h"
#include "harness/machine.h"
#include "harness/output_file.h"
#include "harness/quantities.h"
#include "harness/threads.h"
#include "kernels/error.h"
#include "model/checkpoint.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

namespace fs = std::filesystem;

std::string model_line(const std::string& name, const std::string& model) {
  try {
    const ModelConfig c = open_checkpoint(model, Need::config).config;
    return fmt::format(
        "  {:<44} {:<8} {:>3} layers  {:>2}/{:<2} heads of {:<3}  hidden {:<5} context {:<7} {:>15} parameters\n", name,
        c.architecture, c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim, c.hidden, c.context_length,
        grouped(parameter_count(c)));
  } catch (const InputError& error) {
    return fmt::format("  {:<44} cannot be run: {}\n", name, error.what());
  }
}

/// GGUF files and folders with a config.json below models/, relative to it.
std::vector<std::string> fetched_models(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool is_model = entry.path().extension() == ".gguf" || fs::exists(entry.path() / "config.json");
    if (is_model) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string models_text() {
  std::string text =
      "Names in configs/models (synthetic weights, drawn from the seed, unless the name says a folder):\n";
  for (const std::string& name : synthetic_model_names()) text += model_line(name, name);
  const fs::path folder = fs::path(kvlab_home()) / "models";
  const std::vector<std::string> names = fetched_models(folder);
  text += names.empty() ? "No files under models/; scripts/fetch_model.py smollm2 fetches the default model.\n"
                        : "Files under models/:\n";
  for (const std::string& name : names) text += model_line("models/" + name, (folder / name).string());
  return text;
}

std::string variants_text() {
  static const Variant kDefaults;
  std::string text;
  for (const Axis& axis : axes()) {
    text += fmt::format("{}  {} (default {})\n", axis_flag(axis), axis.sentence, axis.get(kDefaults));
    for (const AxisValue& value : axis.values) text += fmt::format("    {:<12} {}\n", value.name, value.sentence);
  }
  return text;
}

std::string devices_text() {
  const Machine machine = read_machine();
  const std::string obstacle = cuda_obstacle();
  return fmt::format(
      "cpu   {}, {} of {} hardware threads, {} of memory\n"
      "cuda  {}\n"
      "auto  {}\n",
      machine.cpu_model, resolve_threads(0), machine.logical_cores, bytes_text(machine.memory_total_bytes),
      obstacle.empty() ? cuda_description() : "no GPU was found: " + obstacle, obstacle.empty() ? "cuda" : "cpu");
}

}  // namespace

int run_list(const std::string& what) {
  if (what == "models") {
    write_standard_output(models_text());
  } else if (what == "variants") {
    write_standard_output(variants_text());
  } else if (what == "devices") {
    write_standard_output(devices_text());
  } else {
    throw InputError(fmt::format("list '{}': allowed are models, variants, devices", what));
  }
  return 0;
}

}  // namespace kvlab
