#pragma once
// Bytes that have left and reached each machine over its NICs.

#include <vector>

#include "platforms/topology.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// What has been sent is received or lost on the way, since one of the two has gone. Messages that cross
/// no NIC are counted apart.
class Traffic {
 public:
  struct Counters {
    Bytes sent{}, received{};
  };

  /// `topology` has to outlive it.
  explicit Traffic(const Topology& topology) : topology_{topology}, of_machine_(topology.machines().size()) {}

  void sent(Endpoint from, Endpoint to, Bytes size) {
    (is_local(from, to) ? local_ : of_machine_[static_cast<std::size_t>(from.machine)]).sent += size;
  }
  void received(Endpoint from, Endpoint to, Bytes size) {
    (is_local(from, to) ? local_ : of_machine_[static_cast<std::size_t>(to.machine)]).received += size;
  }
  void lost(Endpoint from, Endpoint to, Bytes size) { (is_local(from, to) ? local_lost_ : lost_) += size; }
  /// Bytes that have left a machine, and reached it, over its NICs.
  const Counters& of(std::size_t machine) const { return of_machine_[machine]; }
  const Counters& local() const { return local_; }
  Bytes lost() const { return lost_; }
  Counters total() const {
    Counters sum;
    for (const Counters& machine : of_machine_) {
      sum.sent += machine.sent;
      sum.received += machine.received;
    }
    return sum;
  }

 private:
  bool is_local(Endpoint from, Endpoint to) const { return !topology_.crosses_network(from, to); }

  const Topology& topology_;
  std::vector<Counters> of_machine_;
  Counters local_;
  Bytes lost_{}, local_lost_{};
};

}  // namespace rehearse
