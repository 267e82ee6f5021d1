#include "predictor/job_traits.hpp"

#include <set>
#include <utility>

namespace rehearse {

JobTraits traits_of(const Scenario& scenario, std::string study) {
  JobTraits traits{.study = std::move(study),
                   .model = scenario.model.name,
                   .strategy = describe_strategy(scenario.training.strategy) + " " + to_text(scenario.precision),
                   .workers = static_cast<double>(scenario.count(Role::kWorker)),
                   .machines = 0,
                   .batch = static_cast<double>(scenario.batch)};
  std::set<std::string> gpus;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    traits.machines += group.count;
    if (group.accelerator) gpus.insert(group.accelerator->name);
  }
  for (const std::string& gpu : gpus) traits.gpu += (traits.gpu.empty() ? "" : " + ") + gpu;
  return traits;
}

}  // namespace rehearse
