#pragma once
// The protocols of a profile by which the GPUs of a scenario exchange.

#include <cstddef>
#include <utility>
#include <vector>

#include "platforms/profile.hpp"
#include "platforms/topology.hpp"
#include "sim/base/collective_kind.hpp"
#include "sim/base/pinned.hpp"
#include "sim/collective/collective.hpp"
#include "sim/resources/network.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// A collective by one protocol of the profile.
struct CollectiveMethod {
  CollectiveProtocol protocol;
  CollectivePlan plan;
  std::size_t ranks = 0;
  std::size_t plan_number = 0;  // the same of methods with the same plan
  std::size_t choice = 0;       // the same, one after another, of methods between which the library's tuner chooses

  /// What the plan's messages carry for `payload`: more, by the protocol's flags.
  Bytes on_wire(Bytes payload) const;
  /// Whether any of its messages is larger than the protocol's `eager_limit`.
  bool asks(Bytes on_wire) const;
  /// Time of the copy after the last round: payload / (copy * ranks).
  Seconds copy_time(Bytes payload) const;
};

/// The collectives among `gpus` that a scenario may use, at least one: those of the profile's protocols whose algorithm
/// is the scenario's, or that state none; without such a protocol the scenario's algorithm itself, at no cost besides the links'.
/// The same of every algorithm that works on these machines, if the scenario asks for the fastest. If it asks for what the
/// library takes, all protocols of the profile, without one a ring. Parameters are those of the first GPU's machine.
/// Collectives of another kind have one schedule each (plan_collective()), at the costs of the protocols that are for
/// them, or if there are none of those that are rings and for no kind.
std::vector<CollectiveMethod> collective_methods(const Site& site, const std::vector<Endpoint>& gpus, Network& network,
                                                 CollectiveKind kind = CollectiveKind::kAllReduce);

/// One collective at a time on an idle network. Of the methods of one `choice` that which the library's tuner expects to end first
/// (without tuner: that does), of equals the one that ends first, then the first. Of those of several the one that ends first: so
/// the fastest is never slower than an algorithm asked for by name.
class FastestCollective : private Pinned {
 public:
  /// `watched`: links of which the timers will tell the rates.
  FastestCollective(std::vector<CollectiveMethod> methods, const Network& network,
                    const std::vector<int>& watched = {});

  const std::vector<CollectiveMethod>& methods() const { return methods_; }
  /// Index of the method that is taken.
  std::size_t choose(Bytes payload) const;
  /// launch + CollectiveTimer::duration() of what is on the wire + copy_time().
  Seconds duration(std::size_t method, Bytes payload) const;
  const CollectiveTimer& timer(std::size_t method) const { return timers_[method]; }

 private:
  /// That of the choice which begins with method `first`, and its time.
  std::pair<std::size_t, Seconds> choose_among(std::size_t first, Bytes payload) const;

  std::vector<CollectiveMethod> methods_;
  std::vector<CollectiveTimer> timers_;
  std::vector<CollectiveMethod> expected_;  // the same as the tuner takes them to be; empty: as they are
  std::vector<CollectiveTimer> expected_timers_;
};

}  // namespace rehearse
