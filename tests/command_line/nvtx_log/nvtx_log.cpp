// A profiler of a few lines, which NVTX loads where NVTX_INJECTION64_PATH names it: writes every push and pop of a
// range to the file KVLAB_NVTX_LOG, as "+DOMAIN:NAME" and "-DOMAIN".
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::FILE* log_file() {
  static std::FILE* file = std::fopen(std::getenv("KVLAB_NVTX_LOG"), "a");
  return file;
}

void write_line(const std::string& line) {
  std::fprintf(log_file(), "%s\n", line.c_str());
  std::fflush(log_file());
}

const std::string& name_of(nvtxDomainHandle_t domain) { return *reinterpret_cast<std::string*>(domain); }

nvtxDomainHandle_t create_domain(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(new std::string(name));
}

nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(new std::string(std::string(text) + " (registered)"));
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  const bool registered = event->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  const std::string name =
      registered ? *reinterpret_cast<std::string*>(event->message.registered) : std::string(event->message.ascii);
  write_line("+" + name_of(domain) + ":" + name);
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  write_line("-" + name_of(domain));
  return 0;
}

template <typename Function>
void set(NvtxFunctionTable table, NvtxCallbackIdCore2 id, Function* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(table, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
