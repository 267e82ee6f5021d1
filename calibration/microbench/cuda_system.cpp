// What is no kernel: launches, copies, collectives, clock and power. NCCL and NVML are opened when they are there.

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "calibration/microbench/cuda_calls.hpp"
#include "calibration/microbench/cuda_device.hpp"
#include "calibration/microbench/cuda_kernels.hpp"

namespace rehearse::microbench {

namespace {

constexpr std::size_t kSmallest = std::size_t{4} << 10, kLargest = std::size_t{256} << 20, kStep = 16;
constexpr double kLongEnough = 2e-3;  // s of a sample
constexpr double kMilli = 1e-3, kMega = 1e6;

Effort of_gpu(Effort effort) {
  effort.shortest = kLongEnough;
  return effort;
}

double time_of(const std::function<void(int)>& run, const Effort& effort) {
  return summarize(sample(run, gpu_seconds, of_gpu(effort))).time;
}

/// Memory of the host that the GPU copies from and to by itself.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) { check(cudaMallocHost(&data_, bytes), "cudaMallocHost"); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() { (void)cudaFreeHost(data_); }
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

void add_copies(std::vector<SystemFigure>& figures, int device, const Effort& effort) {
  const PinnedMemory host{kLargest};
  const GpuMemory memory{kLargest};
  for (std::size_t bytes = kLargest; bytes >= kSmallest; bytes /= kStep) {
    const auto copy = [&](const char* what, void* to, const void* from, cudaMemcpyKind kind) {
      const double time = time_of([&](int) { (void)cudaMemcpyAsync(to, from, bytes, kind, nullptr); }, effort);
      figures.push_back({.what = what, .bytes = static_cast<double>(bytes), .time = time});
    };
    copy("host_to_device", memory.get(), host.get(), cudaMemcpyHostToDevice);
    copy("device_to_host", host.get(), memory.get(), cudaMemcpyDeviceToHost);
  }
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  for (int other = 0; other < count; ++other) {
    if (other == device) continue;
    check(cudaSetDevice(other), "cudaSetDevice");
    (void)cudaDeviceEnablePeerAccess(device, 0);
    const GpuMemory there{kLargest};
    check(cudaSetDevice(device), "cudaSetDevice");
    if (cudaDeviceEnablePeerAccess(other, 0) != cudaSuccess) (void)cudaGetLastError();  // it goes through the host then
    for (std::size_t bytes = kLargest; bytes >= kSmallest; bytes /= kStep) {
      const double time = time_of(
          [&](int) { (void)cudaMemcpyPeerAsync(there.get(), other, memory.get(), device, bytes, nullptr); }, effort);
      figures.push_back(
          {.what = "peer_copy", .partner = std::to_string(other), .bytes = static_cast<double>(bytes), .time = time});
    }
  }
}

/// A library that is opened while this lives; none if it is not there.
class Library {
 public:
  explicit Library(const char* name) : handle_{::dlopen(name, RTLD_NOW | RTLD_LOCAL)} {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  template <class Function>
  Function* function(const char* name) const {
    return handle_ != nullptr ? reinterpret_cast<Function*>(::dlsym(handle_, name)) : nullptr;
  }

 private:
  void* handle_;
};

/// NCCL's interface, as nccl.h declares it: ncclFloat32 is 7, ncclSum 0, success 0.
struct Nccl {
  using Communicator = struct ncclComm*;
  static constexpr int kFloat = 7, kSum = 0;

  Library library{"libnccl.so.2"};
  int (*initialise)(Communicator*, int,
                    const int*) = library.function<int(Communicator*, int, const int*)>("ncclCommInitAll");
  int (*destroy)(Communicator) = library.function<int(Communicator)>("ncclCommDestroy");
  int (*begin)() = library.function<int()>("ncclGroupStart");
  int (*end)() = library.function<int()>("ncclGroupEnd");
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Communicator, cudaStream_t) =
      library.function<int(const void*, void*, std::size_t, int, int, Communicator, cudaStream_t)>("ncclAllReduce");

  bool is_there() const { return initialise && destroy && begin && end && all_reduce; }
};

void add_collectives(std::vector<SystemFigure>& figures, int device, const Effort& effort) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  const Nccl nccl;
  if (count < 2 || !nccl.is_there()) return;
  std::vector<Nccl::Communicator> communicators(static_cast<std::size_t>(count));
  if (nccl.initialise(communicators.data(), count, nullptr) != 0) return;
  std::vector<std::unique_ptr<GpuMemory>> memory;
  for (int i = 0; i < count; ++i) {
    check(cudaSetDevice(i), "cudaSetDevice");
    memory.push_back(std::make_unique<GpuMemory>(kLargest));
  }
  const auto all_seconds = [&] {
    for (int i = 0; i < count; ++i) {
      check(cudaSetDevice(i), "cudaSetDevice");
      check(cudaDeviceSynchronize(), "an all-reduce");
    }
    return gpu_seconds();
  };
  for (std::size_t bytes = kLargest; bytes >= kSmallest; bytes /= kStep) {
    const auto run = [&](int) {
      (void)nccl.begin();
      for (std::size_t i = 0; i < communicators.size(); ++i) {
        (void)cudaSetDevice(static_cast<int>(i));
        (void)nccl.all_reduce(memory[i]->get(), memory[i]->get(), bytes / sizeof(float), Nccl::kFloat, Nccl::kSum,
                              communicators[i], nullptr);
      }
      (void)nccl.end();
    };
    const double time = summarize(sample(run, all_seconds, of_gpu(effort))).time;
    figures.push_back({.what = "all_reduce",
                       .partner = std::to_string(count) + " GPUs",
                       .bytes = static_cast<double>(bytes),
                       .time = time});
  }
  for (const Nccl::Communicator communicator : communicators) (void)nccl.destroy(communicator);
  memory.clear();
  check(cudaSetDevice(device), "cudaSetDevice");
}

/// NVML, which comes with the driver: success is 0, the SM's clock 1, the GPU's temperature 0. Source: NVML API Reference.
void add_sensors(std::vector<SystemFigure>& figures, int device) {
  using Handle = struct nvmlDevice*;
  const Library nvml{"libnvidia-ml.so.1"};
  auto* const initialise = nvml.function<int()>("nvmlInit_v2");
  auto* const shut_down = nvml.function<int()>("nvmlShutdown");
  auto* const handle_of = nvml.function<int(const char*, Handle*)>("nvmlDeviceGetHandleByPciBusId_v2");
  auto* const power = nvml.function<int(Handle, unsigned*)>("nvmlDeviceGetPowerUsage");
  auto* const limit = nvml.function<int(Handle, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit");
  auto* const clock = nvml.function<int(Handle, int, unsigned*)>("nvmlDeviceGetClockInfo");
  constexpr int kSmClock = 1;
  char bus[32] = {};
  if (!initialise || !shut_down || !handle_of || initialise() != 0) return;
  Handle handle = nullptr;
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess && handle_of(bus, &handle) == 0) {
    unsigned value = 0;
    if (power && power(handle, &value) == 0) figures.push_back({.what = "power_W", .value = kMilli * value});
    if (limit && limit(handle, &value) == 0) figures.push_back({.what = "power_limit_W", .value = kMilli * value});
    if (clock && clock(handle, kSmClock, &value) == 0) figures.push_back({.what = "clock_Hz", .value = kMega * value});
  }
  (void)shut_down();
}

}  // namespace

std::vector<SystemFigure> gpu_system_figures(int device, const Effort& effort) {
  std::vector<SystemFigure> figures;
  figures.push_back({.what = "launch", .time = time_of([](int) { start_empty(); }, effort)});
  Effort alone = effort;
  alone.shortest = 0;
  const auto waiting = [](int) {
    start_empty();
    (void)cudaDeviceSynchronize();
  };
  figures.push_back({.what = "launch_and_wait", .time = summarize(sample(waiting, gpu_seconds, alone)).time});
  add_sensors(figures, device);  // while it is warm
  add_copies(figures, device, effort);
  add_collectives(figures, device, effort);
  return figures;
}

}  // namespace rehearse::microbench
