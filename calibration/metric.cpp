#include "calibration/metric.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/names.hpp"
#include "sim/engine/collective_time.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/engine/summary.hpp"

namespace rehearse {

double simulated_metric(const Scenario& scenario, const std::string& metric) {
  if (metric == "collective_time_s") return collective_time(scenario).value();
  const Json summary = to_json(scenario, summarize(scenario, simulate(scenario)));
  const auto value = summary.find(metric);
  if (value == summary.end() || !value->is_number()) {
    std::vector<std::string> known{"collective_time_s"};
    for (const auto& [key, entry] : summary.items())
      if (entry.is_number() && key != "format" && key != "seed") known.push_back(key);
    throw InputError{unknown_name_message("metric", metric, known)};
  }
  return value->get<double>();
}

}  // namespace rehearse
