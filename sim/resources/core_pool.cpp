#include "sim/resources/core_pool.hpp"

#include <algorithm>

namespace rehearse {

CorePool::Slot CorePool::run(Seconds now, Seconds alone) {
  const Seconds duration = alone * slowdown_;
  const std::size_t core = free_at_.index();
  const Seconds start = std::max(now, Seconds{free_at_.date()});
  const Seconds end = start + duration;
  free_at_.set(core, end.value());
  work_ += duration;
  return {static_cast<int>(core), start, end};
}

}  // namespace rehearse
