#pragma once
// The network as the strategies see it: flows between machines that share bandwidth max-min fairly, full duplex.

#include <cstdint>
#include <functional>

#include "sim/base/units.hpp"

namespace rehearse {

using MachineIndex = int;
using FlowId = std::uint64_t;

/// A flow occupies the sender's NIC, the receiver's NIC and, between regions, a private share of the path.
/// Latency is not part of a flow: whoever sends pays latency(from, to) before the data count as arrived.
class Network {
 public:
  virtual ~Network() = default;

  /// Moves `size` bytes from one machine to another; `on_sent` runs when the last byte has left. Throws nothing; `from
  /// != to`.
  virtual FlowId start_flow(MachineIndex from, MachineIndex to, Bytes size, std::function<void()> on_sent) = 0;
  /// Stops a flow; its `on_sent` will not run. Unknown ids are ignored.
  virtual void cancel(FlowId flow) = 0;
  /// Changes the rate of a machine's NIC, both directions, from now on.
  virtual void set_capacity(MachineIndex machine, BytesPerSecond rate) = 0;
  virtual Seconds now() const = 0;
  /// One way.
  virtual Seconds latency(MachineIndex from, MachineIndex to) const = 0;
};

}  // namespace rehearse
