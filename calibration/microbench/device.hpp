#pragma once
// What measures kernels: a GPU, or one thread of a processor.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibration/microbench/cases.hpp"
#include "calibration/microbench/timing.hpp"
#include "platforms/accelerator.hpp"
#include "sim/base/pinned.hpp"

namespace rehearse::microbench {

/// A rate or time that is no kernel's: "launch", "host_to_device", ...
struct SystemFigure {
  std::string what, partner;  // partner: of peer copies and collectives
  double bytes = 0;           // of one operation; 0: none
  double time = 0;            // s
  double value = 0;           // of what is no time, such as a clock in Hz or a power in W
};

class Device : private Pinned {
 public:
  virtual ~Device() = default;

  /// Name, sizes and peak rates; what no library tells is measured, within `effort` each.
  virtual Accelerator describe(const Effort& effort) = 0;
  virtual std::vector<Case> cases(Extent extent) const = 0;
  /// None if the device or its libraries do not have the kernel, or `is_over` ended it.
  virtual std::optional<Sample> measure(const Case& of, const Effort& effort, const std::function<bool()>& is_over) = 0;
  /// Host time for each operator of a step besides the kernels: s.
  virtual double dispatch(const Effort& effort) = 0;
  virtual std::vector<SystemFigure> system_figures(const Effort& effort) = 0;
};

/// One thread of this machine's processor, by LibTorch. Throws NoResultError where that was not built in.
std::unique_ptr<Device> make_processor_device();
/// The GPU of this number. Throws NoResultError, which says why there is none.
std::unique_ptr<Device> make_gpu_device(int number);

}  // namespace rehearse::microbench
