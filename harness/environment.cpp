// Build and library versions beside the machine, and the fields that show them.
#include "harness/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <hwy/highway.h>
#include <openssl/crypto.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>

#include "build_info.h"
#include "harness/report_fields.h"
#include "model/profiler_range.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

std::vector<Library> library_versions() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {
      {"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
      {"Highway", fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH)},
      {"OpenMP", fmt::format("{}", _OPENMP)},
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann_json",
       fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"PCRE2", fmt::format("{}.{}", PCRE2_MAJOR, PCRE2_MINOR)},
      {"NVTX", nvtx_version()},
  };
}

std::string isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "";
  }
}

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); }

template <typename Number>
ordered_json positive_or_null(Number value) {
  return value > 0 ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json caches_json(const Environment& e) {
  auto list = ordered_json::array();
  for (const CacheLevel& cache : e.machine.caches) {
    list.push_back({{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}});
  }
  return list;
}

ordered_json libraries_json(const Environment& e) {
  auto object = ordered_json::object();
  for (const Library& library : e.libraries) object[library.name] = library.version;
  return object;
}

ordered_json dirty_json(const Environment& e) {
  return e.git_dirty.empty() ? ordered_json(nullptr) : ordered_json(e.git_dirty == "yes");
}

std::optional<GpuState> read_gpu() {
  const Nvml* nvml = process_nvml();
  return nvml == nullptr ? std::nullopt : nvml->read();
}

ordered_json gpu_json(const std::optional<GpuState>& gpu) {
  if (!gpu) return nullptr;
  ordered_json json;
  json["name"] = text_or_null(gpu->name);
  json["driver"] = text_or_null(gpu->driver);
  json["sm_mhz"] = json_value(gpu->sm_mhz);
  json["max_sm_mhz"] = json_value(gpu->max_sm_mhz);
  json["memory_mhz"] = json_value(gpu->memory_mhz);
  json["power_w"] = json_value(gpu->power_w);
  json["power_limit_w"] = json_value(gpu->power_limit_w);
  json["temperature_c"] = json_value(gpu->temperature_c);
  json["clock_events"] =
      gpu->clock_events ? ordered_json(clock_event_names(*gpu->clock_events)) : ordered_json(nullptr);
  json["ecc"] = json_value(gpu->ecc);
  return json;
}

/// A field of environment.during_run; null where nothing was timed.
template <typename Getter>
FieldOf<Environment> during_run(const char* name, const char* unit, const char* sentence, Getter getter) {
  return {{std::string("environment.during_run.") + name, unit, FieldSource::measured, sentence},
          [getter](const Environment& e) {
            return e.during_run.n_rounds > 0 ? ordered_json(getter(e.during_run)) : ordered_json(nullptr);
          }};
}

}  // namespace

std::string device_name(const std::string& device) {
  if (device == "cpu") return read_machine().cpu_model;
  const std::optional<GpuState> gpu = read_gpu();
  return gpu ? gpu->name : "";
}

Environment read_environment(const std::vector<std::string>& argv, int threads, std::span<const Disturbance> rounds) {
  Environment e;
  e.machine = read_machine();
  e.gpu = read_gpu();
  e.during_run = conditions_of(rounds);
  e.threads = threads;
  e.isa = isa_name();
  e.compiler = kBuildCompiler;
  e.flags = kBuildFlags;
  e.git_sha = kBuildGitSha;
  e.git_dirty = kBuildGitDirty;
  e.argv = argv;
  e.libraries = library_versions();
  e.read_utc = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                           fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
  return e;
}

const std::vector<FieldOf<Environment>>& environment_fields() {
  using E = Environment;
  constexpr auto measured = FieldSource::measured;
  constexpr auto configured = FieldSource::configured;
  static const std::vector<FieldOf<Environment>> list = {
      {{"environment.cpu.model", "", measured, "Name of the processor, from /proc/cpuinfo."},
       [](const E& e) { return text_or_null(e.machine.cpu_model); }},
      {{"environment.cpu.logical_cores", "cores", measured, "Hardware threads that the system shows."},
       [](const E& e) { return positive_or_null(e.machine.logical_cores); }},
      {{"environment.cpu.physical_cores", "cores", measured, "Cores; null where /proc/cpuinfo does not tell."},
       [](const E& e) { return positive_or_null(e.machine.physical_cores); }},
      {{"environment.cpu.isa", "", measured, "Vector instructions that oneDNN dispatches to."},
       [](const E& e) { return text_or_null(e.isa); }},
      {{"environment.cpu.threads", "threads", configured, "Threads that the command asked for."},
       [](const E& e) { return ordered_json(e.threads); }},
      {{"environment.cpu.caches", "", measured, "Caches of core 0: level, type and size in bytes."}, caches_json},
      {{"environment.cpu.numa_nodes", "", measured, "Memory nodes; null where the system does not tell."},
       [](const E& e) { return positive_or_null(e.machine.numa_nodes); }},
      {{"environment.gpu", "", measured,
        "The first GPU that CUDA would show, by NVML, right after the run: name, driver, sm_mhz, max_sm_mhz, "
        "memory_mhz, power_w, power_limit_w, temperature_c, clock_events (why the clock is not higher), ecc. Null "
        "without NVML."},
       [](const E& e) { return gpu_json(e.gpu); }},
      {{"environment.memory.total_bytes", "bytes", measured, "Main memory."},
       [](const E& e) { return positive_or_null(e.machine.memory_total_bytes); }},
      {{"environment.memory.available_bytes", "bytes", measured, "Main memory that was free to use."},
       [](const E& e) { return positive_or_null(e.machine.memory_available_bytes); }},
      {{"environment.os.name", "", measured, "Distribution, from /etc/os-release."},
       [](const E& e) { return text_or_null(e.machine.os_name); }},
      {{"environment.os.kernel", "", measured, "Kernel release and architecture."},
       [](const E& e) { return text_or_null(e.machine.kernel); }},
      {{"environment.compiler", "", measured, "Compiler and version that built the program."},
       [](const E& e) { return text_or_null(e.compiler); }},
      {{"environment.flags", "", configured, "Compiler flags of the build type."},
       [](const E& e) { return text_or_null(e.flags); }},
      {{"environment.git_sha", "", measured, "Commit that was built; null when built outside a repository."},
       [](const E& e) { return text_or_null(e.git_sha); }},
      {{"environment.git_dirty", "", measured, "Whether tracked files differed from that commit."}, dirty_json},
      {{"environment.argv", "", configured, "The command line."}, [](const E& e) { return ordered_json(e.argv); }},
      {{"environment.libraries", "", measured, "Version of each library, by name; NVTX is none in a build without it."},
       libraries_json},
      {{"environment.clocks.governor", "", measured, "Frequency governor of core 0; null where the system hides it."},
       [](const E& e) { return text_or_null(e.machine.governor); }},
      {{"environment.clocks.cpu_mhz", "MHz", measured, "Clock of core 0; null where the system hides it."},
       [](const E& e) { return positive_or_null(e.machine.current_mhz); }},
      {{"environment.load_average", "processes", measured, "System load over 1, 5 and 15 minutes."},
       [](const E& e) { return ordered_json(e.machine.load_average); }},
      during_run("other_cpus", "CPUs", "CPUs that other processes kept busy, on average over all timed rounds.",
                 [](const RunConditions& c) { return c.other_cpus; }),
      during_run("steal_fraction", "1", "Share of the CPU time of all CPUs that the hypervisor gave to others.",
                 [](const RunConditions& c) { return c.steal_fraction; }),
      during_run("quota_fraction", "1", "Share of the timed rounds in which a CPU quota stopped the program.",
                 [](const RunConditions& c) { return c.quota_fraction; }),
      during_run("thermal_events", "", "Times that heat lowered the clock of a core or a package.",
                 [](const RunConditions& c) { return c.thermal_events; }),
      during_run("least_cpu_mhz", "MHz", "Lowest clock of the driving core right after a round; null if unknown.",
                 [](const RunConditions& c) { return positive_or_null(c.least_mhz); }),
      during_run("most_cpu_mhz", "MHz", "Highest such clock.",
                 [](const RunConditions& c) { return positive_or_null(c.most_mhz); }),
      {{"environment.read_utc", "", measured, "When all this was read."},
       [](const E& e) { return ordered_json(e.read_utc); }},
  };
  return list;
}

ordered_json environment_json(const std::vector<std::string>& argv, int threads, std::span<const Disturbance> rounds) {
  return object_of_fields(environment_fields(), "environment.", read_environment(argv, threads, rounds));
}

}  // namespace kvlab
