// Reads configs/hardware/*.json.
#include "harness/hardware.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "model/checkpoint.h"

namespace kvlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path hardware_folder() { return fs::path(kvlab_home()) / "configs" / "hardware"; }

const json& member(const json& object, const std::string& file, const char* key) {
  if (!object.is_object() || !object.contains(key)) throw InputError(fmt::format("{}: '{}' is missing", file, key));
  return object[key];
}

double positive(const json& object, const std::string& file, const char* key) {
  const json& value = member(object, file, key);
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!(number > 0 && std::isfinite(number))) {
    throw InputError(fmt::format("{}: '{}' is not a positive number", file, key));
  }
  return number;
}

std::string text(const json& object, const std::string& file, const char* key) {
  const json& value = member(object, file, key);
  if (!value.is_string()) throw InputError(fmt::format("{}: '{}' is not a string", file, key));
  return value.get<std::string>();
}

}  // namespace

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(hardware_folder(), error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Hardware load_hardware(const std::string& name) {
  const std::vector<std::string> names = hardware_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw InputError(
        fmt::format("--hardware: unknown hardware '{}'; configs/hardware has {}", name, fmt::join(names, ", ")));
  }
  const std::string file = (hardware_folder() / (name + ".json")).string();
  std::ifstream stream(file);
  const json object = json::parse(stream, nullptr, false);
  if (object.is_discarded()) throw InputError(fmt::format("{}: not JSON", file));
  const json& flops = member(object, file, "flops_per_s");
  return {text(object, file, "name"),
          text(object, file, "source"),
          static_cast<std::int64_t>(positive(object, file, "memory_bytes")),
          positive(object, file, "memory_bytes_per_s"),
          positive(flops, file, "f32"),
          positive(flops, file, "bf16")};
}

}  // namespace kvlab
