#pragma once
// Seconds that pass outside of simulations.

#include <chrono>

namespace rehearse {

using WallClock = std::chrono::steady_clock;

inline double seconds_since(WallClock::time_point start) {
  return std::chrono::duration<double>(WallClock::now() - start).count();
}

}  // namespace rehearse
