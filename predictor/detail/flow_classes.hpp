#pragma once
// Max-min fair flows between machines, for many flows between few machines.

#include <cstddef>
#include <limits>
#include <vector>

namespace rehearse {

/// Flows of the same ends are a class: they have one rate, and so each of them ends when its class has served as many
/// bytes as at its start plus its own. Rates are those of progressive filling (sim/resources/max_min_flows.hpp) over the
/// NICs' two directions; they stay while an ended flow's place is taken at once by another of its class.
/// Dates in seconds, rates in bytes per second.
class FlowClasses {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Rates of each machine's NICs in either direction, and of each flow at most; above 0.
  FlowClasses(const std::vector<double>& nics, double cap);

  /// The class of flows from one machine to another; such a flow loads them as so many flows.
  std::size_t add(std::size_t from, std::size_t to, double from_weight = 1, double to_weight = 1);
  std::size_t classes() const { return classes_.size(); }
  void start(std::size_t class_index, std::size_t flow, double bytes, double now);
  /// Date of the flow that ends first; kNever without flows. `now` is not before the last start or end.
  double next_end(double now);
  /// Rate of a machine's NICs, out of it and into it, after next_end() and until the next start or end.
  double out_of(std::size_t machine) const { return used(2 * machine); }
  double into(std::size_t machine) const { return used(2 * machine + 1); }
  /// Ends that flow, of which next_end() has just told; returns it.
  std::size_t end_next();

 private:
  struct Flow {
    double until = 0;  // bytes that its class will have served
    std::size_t flow = 0;
  };
  struct Class {
    std::size_t out = 0, in = 0;  // directions of NICs
    double out_weight = 1, in_weight = 1;
    std::vector<Flow> flows;
    std::size_t first = 0;   // flow to end
    bool is_known = true;    // which one that is
    std::size_t shared = 0;  // flows for which rates were shared
    bool has_rate = true;    // while they are
    double served = 0, since = 0, rate = 0;

    void serve_until(double now);
    void find_first();
  };

  double used(std::size_t direction) const { return left_.empty() ? 0 : capacities_[direction] - left_[direction]; }
  void count(std::size_t class_index, int change);
  void find_end(std::size_t class_index);
  void share(double now);

  std::vector<double> capacities_;  // [directions] out and in of each machine
  double cap_;
  std::vector<Class> classes_;
  std::vector<double> ends_;          // [classes] of the flow that ends first
  std::vector<std::size_t> touched_;  // classes of whose flows some have come or gone
  int unequal_ = 0;                   // classes that have not the flows for which rates were shared
  std::size_t next_ = 0;              // class whose flow ends first
  std::vector<double> left_, load_;   // [directions] rate that is not given away; weights of flows without a rate
  std::vector<std::vector<std::size_t>> crossing_;  // [directions] classes
};

}  // namespace rehearse
