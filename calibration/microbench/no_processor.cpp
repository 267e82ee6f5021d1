// In place of torch_device.cpp and torch_networks.cpp where LibTorch was not found.

#include "calibration/microbench/device.hpp"
#include "calibration/microbench/network_steps.hpp"
#include "sim/base/errors.hpp"

namespace rehearse::microbench {

namespace {
[[noreturn]] void refuse() {
  throw NoResultError{"the processor cannot be measured: this program was built without LibTorch (libtorch-dev)"};
}
}  // namespace

std::unique_ptr<Device> make_processor_device() { refuse(); }
std::int64_t trained_scalars(std::string_view) { refuse(); }
std::int64_t kept_bytes(const Network&) { refuse(); }
std::optional<Sample> measure_step(const Network&, const Effort&, const std::function<bool()>&) { refuse(); }
std::vector<BusySpan> paused_steps(const Network&, int, double, const std::function<bool()>&) { refuse(); }

}  // namespace rehearse::microbench
