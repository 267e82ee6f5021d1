#include "workloads/expert_loads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "sim/base/random.hpp"

namespace rehearse {

std::vector<double> zipf_loads(int experts, int per_token, double exponent) {
  std::vector<double> loads(static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < loads.size(); ++i) loads[i] = std::pow(static_cast<double>(i + 1), -exponent);
  const double most = static_cast<double>(experts) / per_token;
  double left = experts;  // of all loads, for those from `first` on
  for (std::size_t first = 0; first < loads.size(); ++first) {
    const double wanted = std::accumulate(loads.begin() + static_cast<std::ptrdiff_t>(first), loads.end(), 0.0);
    if (loads[first] * left / wanted <= most) {
      for (std::size_t i = first; i < loads.size(); ++i) loads[i] *= left / wanted;
      break;
    }
    loads[first] = most;
    left -= most;
  }
  return loads;
}

namespace {

/// [experts] of the mixture.
std::vector<double> loads_of_experts(double zipf, const ExpertsOfLayer& mixture) {
  std::vector<double> loads = zipf_loads(mixture.experts, mixture.per_token, zipf);
  Rng rng{1, "experts of layer " + std::to_string(mixture.layer)};
  for (std::size_t left = loads.size(); left > 1; --left) std::swap(loads[left - 1], loads[rng.below(left)]);
  return loads;
}

/// Share of the tokens that choose some of the experts from `begin` to `end`, if they chose each by itself.
double chosen(const std::vector<double>& loads, const ExpertsOfLayer& mixture, std::size_t begin, std::size_t end) {
  double none = 1;
  for (std::size_t i = begin; i < end; ++i) none *= std::max(0.0, 1 - loads[i] * mixture.per_token / mixture.experts);
  return 1 - none;
}

}  // namespace

ExpertLoads::ExpertLoads(const ExpertSplit& split, const ExpertsOfLayer& mixture) {
  if (!split.has_own_loads()) return;
  const std::vector<double> loads = loads_of_experts(split.zipf, mixture);
  const std::size_t each = loads.size() / static_cast<std::size_t>(split.degree);
  for (std::size_t first = 0; first < loads.size(); first += each) {
    double rows = 0;
    for (std::size_t i = first; i < first + each; ++i) rows += std::min(loads[i], split.capacity.value_or(loads[i]));
    of_gpus.push_back(rows / static_cast<double>(each));
  }
  // Experts of a token are all different: what even loads make of that is taken for these, too.
  const std::vector<double> even(loads.size(), 1);
  const std::size_t on_machine = loads.size() / static_cast<std::size_t>(split.machines);
  const double by_independent =
      machines_of_token(split, mixture) / split.machines / chosen(even, mixture, 0, on_machine);
  double sum = 0;
  for (std::size_t first = 0; first < loads.size(); first += on_machine) {
    of_machines.push_back(std::min(1.0, chosen(loads, mixture, first, first + on_machine) * by_independent));
    sum += of_machines.back();
  }
  if (split.machines_per_token > 0 && sum > split.machines_per_token)
    for (double& share : of_machines) share *= split.machines_per_token / sum;
}

double machines_of_token(const ExpertSplit& split, const ExpertsOfLayer& mixture) {
  const int each = mixture.experts / split.machines;
  double none = 1;  // of a machine's experts, drawn without putting any back
  for (int i = 0; i < mixture.per_token; ++i)
    none *= std::max(0.0, 1 - static_cast<double>(each) / (mixture.experts - i));
  const double expected = split.machines * (1 - none);
  return split.machines_per_token > 0 ? std::min<double>(expected, split.machines_per_token) : expected;
}

}  // namespace rehearse
