#pragma once
// A first guess of the metrics of a resource profile: the same steps as in the simulator, with less in them. Machines, workers and
// links are alike, nothing is random, nothing fails, variables are the only units, and every server's core, connection
// and GPU link does one thing after another.

#include <vector>

namespace rehearse {

/// A kernel, in dispatch order.
struct SketchedKernel {
  double time_s = 0;                       // on the GPU
  double memory_s = 0;                     // part of it in which memory is busy
  int first_variable = -1, variables = 0;  // that it waits for, by creation number
};

/// A variable, by its creation number.
struct SketchedVariable {
  double pulled_bytes = 0;  // 0: it is not pulled
  double pushed_bytes = 0;
  int server = 0;
  int gradient = -1;  // kernel after which its gradient is complete; -1: it has none
};

/// All-reduces, one after another; buckets and cycles are those of GradientExchange (sim/scenario/scenario.hpp).
struct SketchedRing {
  double latency_s = 0, byte_s = 0;      // of an all-reduce, and for each of its bytes; byte_s 0: as the links allow
  double bucket_bytes = 0, cycle_s = 0;  // 0: none
  bool waits_for_backward = false;       // all of them come after the last kernel
};

/// The machine, from 0, of a server. Servers stand machine by machine, the first machines having one more if it does
/// not come out even (sim/scenario/site.hpp).
int machine_of_server(int server, int servers, int machines);

/// Machines are alike. Without servers gradients are reduced in a ring.
struct SketchedCluster {
  double dispatch_s = 0;  // of the host, for a kernel
  double overhead_s = 0;  // of a step
  double input_bytes = 0;
  int machines = 1;  // with workers
  int workers = 1;   // of all machines
  int servers = 0;   // see machine_of_server() if colocated, else on machines of their own
  bool is_colocated = false;
  int cores = 1;                                           // of a machine with servers
  double nic_bytes_per_s = 0, server_nic_bytes_per_s = 0;  // of a machine, each direction; of one with servers alone
  double flow_bytes_per_s = 0;                             // of one connection, at most
  double gpu_link_bytes_per_s = 0;                         // of one GPU to its host, each direction
  double latency_s = 0;                                    // one way, between machines
  double variable_s = 0, byte_s = 0;                       // of a core, to read or to apply
  double update_s = 0;                                     // more, for the last worker's gradient of a variable
  double split_update_s = 0, split_above_bytes = 0;        // more, for a gradient above this size
  bool is_synchronous = false;
  double period_s = 0;      // of sampling
  double window_steps = 1;  // of each worker, after its first one
  SketchedRing ring{};
};

struct SketchedMetrics {
  std::vector<double> labels;  // in the order of label_names(), 0 for states that do not occur
  double window_s = 0;         // that they are taken over; 0: the run has no end
};

/// A worker's step:
///   pull    cores of each server read its variables, first come, first served; each connection carries one at a time;
///           NICs are shared max-min fairly (detail/flow_classes.hpp); GPU links copy one after another
///   kernel  dispatched when its variables are there; starts when the one before it has ended
///   push    GPU link, connection, cores, as gradients are complete
///   step    until all servers have applied it; a synchronous one until they have for all workers
/// Workers are followed until the end of the run, or for 22 steps of each or 200 000 messages, and then do the same
/// again; up to four synchronous ones for as many steps as they are. Without servers, buckets of gradients in the order
/// in which they are complete go through the ring in turn. The bursts are those of averages over sampling periods, as
/// in resource_profile().
SketchedMetrics sketch_metrics(const std::vector<SketchedKernel>& kernels,
                               const std::vector<SketchedVariable>& variables, const SketchedCluster& cluster);

}  // namespace rehearse
