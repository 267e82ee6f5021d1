#include "sim/base/budget.hpp"

#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

Budget::Budget(std::optional<Seconds> wall_time, std::function<bool()> is_interrupted,
               std::chrono::steady_clock::time_point start)
    : wall_time_{wall_time}, is_interrupted_{std::move(is_interrupted)}, start_{start} {}

void Budget::stop(const std::string& progress) const {
  if (is_interrupted() || !wall_time_) throw Interrupted{};
  throw NoResultError{"stopped by --max-wall-time " + to_text(*wall_time_) + progress};
}

}  // namespace rehearse
