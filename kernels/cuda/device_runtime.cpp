// The runtime services of a real device, call by call.
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "kernels/cuda/last_launch.h"
#include "kernels/cuda/runtime.h"
#include "kernels/error.h"

namespace kvlab::cuda {

namespace {

void check(cudaError_t status, const char* call, const std::string& what = "") {
  if (status == cudaSuccess) return;
  const char* kernel = last_launched_kernel();
  throw std::runtime_error(std::string(call) + (what.empty() ? "" : " (" + what + ")") + ": " +
                           cudaGetErrorString(status) +
                           (kernel == nullptr ? "" : "; our last launch was " + std::string(kernel)));
}

/// The same, but memory that is not there is OutOfMemory.
void check_memory(cudaError_t status, const char* call, const std::string& what) {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // later calls would report it again
    throw OutOfMemory(std::string(call) + " (" + what + "): " + cudaGetErrorString(status));
  }
  check(status, call, what);
}

class DeviceGraph : public Graph {
 public:
  explicit DeviceGraph(cudaGraph_t graph) : graph_(graph) {
    if (const cudaError_t status = cudaGraphInstantiate(&executable_, graph_, 0); status != cudaSuccess) {
      cudaGraphDestroy(graph_);
      check(status, "cudaGraphInstantiate");
    }
  }
  ~DeviceGraph() override {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  void launch(CUstream_st* stream) override { check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

std::int64_t pool_bytes(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pool, attribute, &bytes), "cudaMemPoolGetAttribute");
  return static_cast<std::int64_t>(bytes);
}

class DeviceRuntime : public Runtime {
 public:
  void* allocate(std::size_t bytes, const std::string& name, CUstream_st* stream) override {
    void* memory = nullptr;
    check_memory(cudaMallocAsync(&memory, bytes, stream), "cudaMallocAsync",
                 name + ", " + std::to_string(bytes) + " bytes");
    return memory;
  }
  void release(void* memory, CUstream_st* stream) noexcept override { cudaFreeAsync(memory, stream); }

  void* allocate_pinned(std::size_t bytes) override {
    void* memory = nullptr;
    check_memory(cudaMallocHost(&memory, bytes), "cudaMallocHost",
                 "pinned host memory, " + std::to_string(bytes) + " bytes");
    return memory;
  }
  void release_pinned(void* memory) noexcept override { cudaFreeHost(memory); }

  void copy_to_device(void* to, const void* from, std::size_t bytes, CUstream_st* stream) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync", "to the device");
    ++transfers_.n_to_device;
    transfers_.to_device_bytes += static_cast<std::int64_t>(bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes, CUstream_st* stream) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync", "to the host");
    ++transfers_.n_to_host;
    transfers_.to_host_bytes += static_cast<std::int64_t>(bytes);
  }
  void fill(void* to, std::uint8_t byte, std::size_t bytes, CUstream_st* stream) override {
    check(cudaMemsetAsync(to, byte, bytes, stream), "cudaMemsetAsync");
  }
  Transfers transfers() const override { return transfers_; }

  std::int64_t n_multiprocessors() const override { return attribute(cudaDevAttrMultiProcessorCount); }
  std::int64_t l2_bytes() const override { return attribute(cudaDevAttrL2CacheSize); }
  std::int64_t free_bytes() const override {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // what was released is free from here on
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    cudaMemPool_t pool = nullptr;
    check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
    return static_cast<std::int64_t>(free) + pool_bytes(pool, cudaMemPoolAttrReservedMemCurrent) -
           pool_bytes(pool, cudaMemPoolAttrUsedMemCurrent);  // the pool keeps some of what was released
  }

  CUstream_st* make_stream() override {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }
  void destroy_stream(CUstream_st* stream) noexcept override { cudaStreamDestroy(stream); }
  void synchronize(CUstream_st* stream) override { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

  CUevent_st* make_event() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    return event;
  }
  void destroy_event(CUevent_st* event) noexcept override { cudaEventDestroy(event); }
  void record(CUevent_st* event, CUstream_st* stream) override {
    check(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  void synchronize_event(CUevent_st* event) override { check(cudaEventSynchronize(event), "cudaEventSynchronize"); }
  void wait(CUstream_st* stream, CUevent_st* event) override {
    check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  std::optional<double> elapsed_s(CUevent_st* from, CUevent_st* to) override {
    float elapsed_ms = 0.0F;
    check(cudaEventElapsedTime(&elapsed_ms, from, to), "cudaEventElapsedTime");
    return static_cast<double>(elapsed_ms) / 1e3;
  }

  void begin_capture(CUstream_st* stream) override {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  std::unique_ptr<Graph> end_capture(CUstream_st* stream) override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    return std::make_unique<DeviceGraph>(graph);
  }
  void abandon_capture(CUstream_st* stream) noexcept override {
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
  }

  void start_profiler() override {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaProfilerStart(), "cudaProfilerStart");
  }
  void stop_profiler() override {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaProfilerStop(), "cudaProfilerStop");
  }

 private:
  static std::int64_t attribute(cudaDeviceAttr which) {
    int device = 0;
    int value = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
    return value;
  }

  Transfers transfers_;
};

}  // namespace

std::string device_obstacle() {
  // Numbers GPUs as NVML does, so that clocks and power are those of the GPU that runs. Before the first CUDA call.
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
  // With no driver the runtime speaks of an insufficient one, which misleads: 0 tells the truth.
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver is loaded";
  int n_devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&n_devices); status != cudaSuccess) {
    return std::string("cudaGetDeviceCount: ") + cudaGetErrorString(status);
  }
  return n_devices == 0 ? "the driver sees no GPU" : "";
}

std::string device_description() {
  if (const std::string obstacle = device_obstacle(); !obstacle.empty()) throw std::runtime_error(obstacle);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return std::string(properties.name) + ", sm_" + std::to_string(properties.major * 10 + properties.minor) + ", " +
         std::to_string(properties.multiProcessorCount) + " multiprocessors, " +
         std::to_string(properties.totalGlobalMem >> 20) + " MiB of memory";
}

std::unique_ptr<Runtime> make_device_runtime() {
  if (const std::string obstacle = device_obstacle(); !obstacle.empty()) throw std::runtime_error(obstacle);
  check(cudaSetDevice(0), "cudaSetDevice");
  return std::make_unique<DeviceRuntime>();
}

}  // namespace kvlab::cuda
