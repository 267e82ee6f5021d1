#include "sim/engine/core_pool.hpp"

#include <algorithm>

namespace rehearse {

CorePool::Slot CorePool::run(Seconds now, Seconds duration) {
  const auto core = std::min_element(free_at_.begin(), free_at_.end());
  const Seconds start = std::max(now, *core);
  *core = start + duration;
  work_ += duration;
  return {static_cast<int>(core - free_at_.begin()), start, *core};
}

}  // namespace rehearse
