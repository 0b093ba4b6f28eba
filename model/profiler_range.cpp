// A profiler attaches itself before the first range. None attached: NVTX hands out no domain, and a range is one test.
#include "model/profiler_range.h"

#ifdef KVLAB_WITH_NVTX

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

namespace kvlab {
namespace {

/// Null where nobody listens.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("kvlab");
  return handle;
}

bool listened_to() { return domain() != nullptr; }

nvtxEventAttributes_t event() {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return attributes;
}

/// True: begun.
bool push(const char* name) {
  nvtxEventAttributes_t attributes = event();
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
  return true;
}

}  // namespace

ProfilerRange::ProfilerRange(const char* name) : name_(name), open_(listened_to() && push(name)) {}

ProfilerRange::ProfilerRange(const char* name, std::int64_t number)
    : name_(name), open_(listened_to() && push(fmt::format("{} {}", name, number).c_str())) {}

ProfilerRange::ProfilerRange(const char* name, std::int64_t number, const char* unit)
    : name_(name), open_(listened_to() && push(fmt::format("{} {} {}", name, number, unit).c_str())) {}

void ProfilerRange::end() { nvtxDomainRangePop(domain()); }

void ProfilerRange::next(const char* name) {
  name_ = name;
  if (!open_) return;
  end();
  push(name);
}

CaptureRange::CaptureRange() {
  if (!listened_to()) return;
  // nsys looks for a capture range among registered names only, unless it is told otherwise.
  static const nvtxStringHandle_t name = nvtxDomainRegisterStringA(domain(), "profile");
  nvtxEventAttributes_t attributes = event();
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

CaptureRange::~CaptureRange() {
  if (listened_to()) nvtxDomainRangePop(domain());
}

std::string nvtx_version() { return std::to_string(NVTX_VERSION); }

}  // namespace kvlab

#else

namespace kvlab {

ProfilerRange::ProfilerRange(const char* name) : name_(name) {}
ProfilerRange::ProfilerRange(const char* name, std::int64_t /*number*/) : name_(name) {}
ProfilerRange::ProfilerRange(const char* name, std::int64_t /*number*/, const char* /*unit*/) : name_(name) {}
void ProfilerRange::end() {}
void ProfilerRange::next(const char* name) { name_ = name; }
CaptureRange::CaptureRange() = default;
CaptureRange::~CaptureRange() = default;
std::string nvtx_version() { return "none"; }

}  // namespace kvlab

#endif
