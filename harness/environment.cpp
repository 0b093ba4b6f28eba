// Build and library versions beside the machine, and the fields that show them.
#include "harness/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <hwy/highway.h>
#include <openssl/crypto.h>

#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>

#include "build_info.h"
#include "harness/report_fields.h"

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

}  // namespace

Environment read_environment(const std::vector<std::string>& argv, int threads) {
  Environment e;
  e.machine = read_machine();
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
      {{"environment.gpu", "", measured, "The GPU of the run; null on the CPU."},
       [](const E&) { return ordered_json(nullptr); }},
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
      {{"environment.libraries", "", measured, "Version of each library, by name."}, libraries_json},
      {{"environment.clocks.governor", "", measured, "Frequency governor of core 0; null where the system hides it."},
       [](const E& e) { return text_or_null(e.machine.governor); }},
      {{"environment.clocks.cpu_mhz", "MHz", measured, "Clock of core 0; null where the system hides it."},
       [](const E& e) { return positive_or_null(e.machine.current_mhz); }},
      {{"environment.load_average", "processes", measured, "System load over 1, 5 and 15 minutes."},
       [](const E& e) { return ordered_json(e.machine.load_average); }},
      {{"environment.read_utc", "", measured, "When all this was read."},
       [](const E& e) { return ordered_json(e.read_utc); }},
  };
  return list;
}

ordered_json environment_json(const std::vector<std::string>& argv, int threads) {
  return object_of_fields(environment_fields(), "environment.", read_environment(argv, threads));
}

}  // namespace kvlab
