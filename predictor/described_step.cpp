#include "predictor/described_step.hpp"

#include <algorithm>
#include <cmath>

#include "predictor/dataset.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

std::string changes_by_chance(const Scenario& scenario) {
  for (std::size_t i = 0; i < scenario.groups.size(); ++i) {
    const Group& group = scenario.groups[i];
    const char* key = group.pool || group.replay ? "spot_pool"
                      : group.faults             ? "faults"
                      : group.is_standby         ? "standby"
                                                 : "";
    if (*key != '\0') return "/cluster/groups/" + std::to_string(i) + "/" + key;
  }
  return scenario.training.control ? "/training/control" : "";
}

void require_regular(const Scenario& scenario, const std::string& file) {
  if (const std::string chance = changes_by_chance(scenario); !chance.empty())
    throw InputError{
        file + ": " + chance +
        ": machines that come and go by chance, of which datasets and predictors know nothing: simulate it "
        "instead"};
}

namespace {

constexpr std::size_t kMostStepNodes = kStepKinds * kStepParts * 3;
constexpr float kMostNumber = 1e30F;

}  // namespace

std::vector<float> numbers_of(const DescribedStep& step) {
  std::vector<float> numbers{static_cast<float>(step.nodes.size()), static_cast<float>(step.edges.size()),
                             step.waits_for_all ? 1.0F : 0.0F};
  for (const StepNode& node : step.nodes) {
    numbers.insert(numbers.end(),
                   {static_cast<float>(node.kind), static_cast<float>(node.part), static_cast<float>(node.resource)});
    numbers.insert(numbers.end(), node.costs.begin(), node.costs.end());
  }
  for (const auto& [from, to] : step.edges)
    numbers.insert(numbers.end(), {static_cast<float>(from), static_cast<float>(to)});
  for (const StepLoad& load : step.loads) numbers.insert(numbers.end(), load.seconds.begin(), load.seconds.end());
  for (const StepTimeline& timeline : step.timelines)
    for (const auto& part : timeline) numbers.insert(numbers.end(), part.begin(), part.end());
  for (const std::vector<double>& shown : step.shown)
    for (const double label : shown) numbers.push_back(static_cast<float>(label));
  for (const double total : step.totals) numbers.push_back(static_cast<float>(total));
  return numbers;
}

DescribedStep described_step(std::span<const float> numbers, const std::string& place) {
  constexpr std::size_t kNodeNumbers = 3 + std::tuple_size_v<decltype(StepNode::costs)>;
  const auto fail = [&](const std::string& what) -> InputError { return InputError{place + ": " + what}; };
  if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return x >= 0 && x <= kMostNumber; }))
    throw fail("expected numbers from 0 to 1e30 of a step");
  const auto index = [&](float number, std::size_t end) {
    if (!(number < static_cast<float>(end)) || number != std::floor(number))
      throw fail("expected whole numbers below " + std::to_string(end) + " of a step");
    return static_cast<std::int32_t>(number);
  };
  if (numbers.size() < 3) throw fail("expected the numbers of a step");
  const auto nodes = static_cast<std::size_t>(index(numbers[0], kMostStepNodes + 1));
  const auto edges = static_cast<std::size_t>(index(numbers[1], kMostStepNodes * kMostStepNodes + 1));
  const std::size_t labels = label_names().size(), totals = step_totals().size();
  const std::size_t expected = 3 + nodes * kNodeNumbers + edges * 2 + kStepResources * 3 + 2 * kStepParts * kPartLoads +
                               kPaces * labels + totals;
  if (numbers.size() != expected)
    throw fail("expected " + std::to_string(expected) + " numbers of a step; found " + std::to_string(numbers.size()));
  DescribedStep step{.waits_for_all = index(numbers[2], 2) == 1};
  const float* next = numbers.data() + 3;
  for (std::size_t i = 0; i < nodes; ++i) {
    StepNode node{.kind = index(next[0], kStepKinds),
                  .part = index(next[1], kStepParts),
                  .resource = index(next[2], kStepResources)};
    std::copy_n(next + 3, node.costs.size(), node.costs.begin());
    step.nodes.push_back(node);
    next += kNodeNumbers;
  }
  for (std::size_t i = 0; i < edges; ++i, next += 2)
    step.edges.push_back({index(next[0], nodes), index(next[1], nodes)});
  const auto take = [&](auto& values) {
    std::copy_n(next, values.size(), values.begin());
    next += values.size();
  };
  for (StepLoad& load : step.loads) take(load.seconds);
  for (StepTimeline& timeline : step.timelines)
    for (auto& part : timeline) take(part);
  for (std::vector<double>& shown : step.shown) {
    shown.resize(labels);
    take(shown);
  }
  step.totals.resize(totals);
  take(step.totals);
  return step;
}

}  // namespace rehearse
