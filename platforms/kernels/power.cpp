#include "platforms/kernels/power.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse::kernels {

namespace {

constexpr double kNodeOfEnergy = 16;    // nm
constexpr double kVoltageFloor = 0.75;  // of the highest clock
constexpr double kLowestClock = 0.12;   // of it
constexpr int kNewtonSteps = 6;         // from above, on a function that is convex: to 1e-9

}  // namespace

double energy_per_flop(const Gpu& gpu, Precision precision, double energy) {
  const double process = gpu.process / kNodeOfEnergy;
  return energy * 1e-12 * (is_reduced(precision) ? std::sqrt(process) * bytes_of(precision) / 2 : process);
}

double clock_at_limit(const Load& load, const Gpu& gpu, double joules) {
  if (!(gpu.power > 0) || !(gpu.process > 0) || !(load.time > 0)) return 1;
  const double left = gpu.power - gpu.idle_power;
  const double traffic = gpu.traffic_energy * load.bytes / load.time, switching = joules * load.flops / load.time;
  if (traffic + switching <= left) return 1;
  const double at_floor = left / (traffic + switching * kVoltageFloor * kVoltageFloor);
  if (at_floor <= kVoltageFloor) return std::max(kLowestClock, at_floor);
  double share = 1;
  for (int i = 0; i < kNewtonSteps; ++i)
    share -= ((switching * share * share + traffic) * share - left) / (3 * switching * share * share + traffic);
  return share;
}

}  // namespace rehearse::kernels
