#pragma once
// A first guess of a resource profile: one worker's step with fair shares of links and servers, no event simulated.

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"

namespace rehearse {

/// A kernel, in dispatch order.
struct SketchedKernel {
  double time_s = 0;                       // on the GPU
  double memory_s = 0;                     // part of it in which memory is busy
  int first_variable = -1, variables = 0;  // that it waits for, by creation number
};

struct SketchedVariable {
  double bytes = 0;
  int machine = 0;    // that serves it
  int gradient = -1;  // kernel after which its gradient is complete; -1: it has none
};

struct SketchedCluster {
  double dispatch_s = 0;       // of the host, for a kernel
  double overhead_s = 0;       // of a step
  double link_Bps = 0;         // the worker's share of its machine's link, each direction
  double machine_workers = 1;  // that do the same on its machine
  double serving_Bps = 0;      // of a machine with servers, each direction
  double sharers = 1;          // workers that share a server's link
  double variable_s = 0;       // time of a variable on a server's cores, for all workers
  double byte_s = 0;           // the same of a byte
  bool chief_serves = false;   // machine 0 is the worker's own, and serves variables
  double period_s = 0;         // of sampling
};

/// The labels in the order of label_names(), 0 for states that do not occur.
///   pull   variable v arrives when the worker's link has carried it and those before it, and its server has sent its
///          own up to v to all sharers
///   kernel starts when the host has dispatched it, the one before it has ended and its variables are there
///   push   the same as pull with gradients, from the end of the kernel that completes them
///   step   until the last push has been served
/// Three such steps in a row are averaged over sampling periods, whose bursts are counted as in resource_profile().
std::vector<double> sketch_labels(const std::vector<SketchedKernel>& kernels,
                                  const std::vector<SketchedVariable>& variables, const SketchedCluster& cluster);

}  // namespace rehearse
