// Reads configs/hardware/*.json, or measures.
#include "harness/hardware.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/ceilings.h"
#include "harness/machine.h"
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

std::vector<std::string> texts(const json& object, const std::string& file, const char* key) {
  std::vector<std::string> list;
  for (const json& entry : object.value(key, json::array())) {
    if (!entry.is_string()) throw InputError(fmt::format("{}: '{}' holds something that is not a string", file, key));
    list.push_back(entry.get<std::string>());
  }
  return list;
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
        fmt::format("--hardware: unknown hardware '{}'; configs/hardware has {}, and `this` is this machine", name,
                    fmt::join(names, ", ")));
  }
  const std::string file = (hardware_folder() / (name + ".json")).string();
  std::ifstream stream(file);
  const json object = json::parse(stream, nullptr, false);
  if (object.is_discarded()) throw InputError(fmt::format("{}: not JSON", file));
  const json& flops = member(object, file, "flops_per_s");
  Hardware hardware;
  hardware.name = text(object, file, "name");
  hardware.source = text(object, file, "source");
  hardware.memory_bytes = static_cast<std::int64_t>(positive(object, file, "memory_bytes"));
  hardware.memory_bytes_per_s = positive(object, file, "memory_bytes_per_s");
  hardware.f32_flops_per_s = positive(flops, file, "f32");
  hardware.bf16_flops_per_s = positive(flops, file, "bf16");
  hardware.device_names = texts(object, file, "device_names");
  if (object.contains("link_bytes_per_s")) hardware.link_bytes_per_s = positive(object, file, "link_bytes_per_s");
  return hardware;
}

Hardware measure_this_machine(int threads) {
  constexpr double kBudget_s = 1.0;
  const Machine machine = read_machine();
  const Ceilings ceilings = measure_ceilings(threads, kBudget_s);
  Hardware hardware;
  hardware.name = machine.cpu_model.empty() ? "this machine" : machine.cpu_model;
  hardware.source =
      fmt::format("measured now on {} thread{}: reading, and products of 2,048 x 2,048; memory is what is free now",
                  threads, threads == 1 ? "" : "s");
  hardware.memory_bytes = machine.memory_available_bytes;
  hardware.memory_bytes_per_s = ceilings.read_bytes_per_s;
  hardware.f32_flops_per_s = ceilings.gemm_flops_per_s_f32;
  hardware.bf16_flops_per_s = ceilings.gemm_flops_per_s_bf16;
  return hardware;
}

std::optional<Hardware> hardware_of_device(const std::string& device_name) {
  for (const std::string& name : hardware_names()) {
    try {
      const Hardware hardware = load_hardware(name);
      const auto& devices = hardware.device_names;
      if (std::find(devices.begin(), devices.end(), device_name) != devices.end()) return hardware;
    } catch (const InputError&) {
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace kvlab
