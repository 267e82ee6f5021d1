#pragma once
// What a monitoring tool would have shown during a run: utilization of GPUs and NICs over time, and its bursts.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/record/run_record.hpp"

namespace rehearse {

struct Scenario;

/// Averages over sampling periods; sample i covers [i, i + 1) periods of simulated time. The run ends within the last
/// one, which is averaged over the whole period all the same, so that the sum of a series times the period is the whole
/// work. Memory is no average.
struct ResourceSeries {
  MachineIndex machine = 0;
  std::vector<double> gpu;       // share of the period in which at least one kernel ran, as NVML counts it
  std::vector<double> memory;    // share of the period in which device memory was read or written
  std::vector<double> receive;   // bytes per second
  std::vector<double> transmit;  // bytes per second
  std::vector<double>
      gpu_memory{};  // bytes that the fullest of its GPUs holds at the most in the period; empty: not asked for
};

/// Divides `amount` among the samples, of one `period` each, that `span` overlaps; the last one takes the remainder, so
/// that nothing is lost by rounding, and what lies behind the last sample.
void spread(std::vector<double>& sums, Seconds period, Span span, double amount);

/// When a sample belongs to a burst: its value is above the threshold.
struct BurstThresholds {
  /// Of gpu and memory: monitors show whole percents (nvmlUtilization_t), of which less than half of one is 0.
  double utilization = 0.005;
  double share_of_maximum = 0.01;  // of receive and transmit: relative to the largest sample of the covered time
};

/// Bursts are runs of consecutive samples above the threshold, gaps the runs between them. The first run and the last
/// are cut by the ends of the series and are left out; only if no other run of the same state exists do they count, and
/// the duration is then a lower bound. All zero for a state that never occurs.
struct Bursts {
  double threshold = 0;   // in the unit of the series
  Seconds idle{};         // mean duration of a gap
  Seconds active{};       // mean duration of a burst
  double peak = 0;        // mean over bursts of the largest sample, in the unit of the series
  std::int64_t gaps = 0;  // how many the means are taken over
  std::int64_t bursts = 0;
  double mean = 0;  // of all samples, in the unit of the series
};

/// Bursts of a series, in which a sample is one `period`.
Bursts find_bursts(std::span<const double> series, Seconds period, double threshold);
/// Bursts above the threshold of a utilization, or of a rate.
Bursts find_bursts_of_utilization(std::span<const double> series, Seconds period, const BurstThresholds& thresholds);
Bursts find_bursts_of_rate(std::span<const double> series, Seconds period, const BurstThresholds& thresholds);

/// The twelve metrics of a machine, in the order of Driple's labels: idle, active and peak of each.
/// Source: Yang et al., SIGMETRICS 2022, whose thresholds are unpublished: BurstThresholds is our convention.
struct BurstMetrics {
  MachineIndex machine = 0;
  Bursts memory, gpu, receive, transmit;
};

struct ResourceProfile {
  Seconds period{};
  std::size_t samples = 0;             // of each series
  std::vector<ResourceSeries> series;  // of the recorded machines
  BurstThresholds thresholds;
  Span covered;                 // the bursts are those of the whole recorded samples within the steady-state window
  std::int64_t iterations = 0;  // fewest whole steps of any worker within that time
  std::vector<BurstMetrics> bursts;  // of the recorded machines

  /// Whether at least 60 simulated seconds and at least 20 iterations are covered.
  bool covers_enough() const { return covered.end - covered.start >= Seconds{60} && iterations >= 20; }
};

/// What counts as received and transmitted by a machine: what crosses its NICs, of which it may have several; or, for
/// clusters of one machine, whose NICs carry nothing, what crosses the links of its GPUs, into and out of each of them.
enum class TrafficOf { kNics, kGpus };

/// Needs a record whose recorder kept activity, and the rates of GPUs' links for their traffic. A kernel's memory time
/// is spread evenly over its span; received and transmitted are what crossed links in each period, at the rates that
/// flows had then. A monitor that reads counters every `reading_interval`, besides at the grid of periods, takes them to
/// grow in straight lines between two readings: a gap shorter than period + reading_interval may not be seen. Throws RunError if there would be more than ten million samples, std::logic_error if a sample
/// of a link is above the link's rate.
ResourceProfile resource_profile(const RunRecord& record, Seconds period, BurstThresholds thresholds = {},
                                 TrafficOf traffic = TrafficOf::kNics, Seconds reading_interval = {});
/// The same at the scenario's sampling period, whose place the error names, and its reading interval.
ResourceProfile resource_profile(const Scenario& scenario, const RunRecord& record,
                                 TrafficOf traffic = TrafficOf::kNics);

}  // namespace rehearse
