// Loads of experts by Zipf's law, and of the GPUs and machines that have them: sums, ratios, bounds, draws.

#include "workloads/expert_loads.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rehearse {

namespace {

double sum_of(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

}  // namespace

TEST_CASE("loads fall as i^-exponent, their mean is 1, and none has more than all tokens") {
  for (const double exponent : {0.0, 0.3, 1.0, 2.5}) {
    const std::vector<double> loads = zipf_loads(64, 4, exponent);
    CHECK(sum_of(loads) == doctest::Approx(64).epsilon(1e-12));
    CHECK(std::ranges::is_sorted(loads, std::greater{}));
    CHECK(loads.front() <= 16 * (1 + 1e-12));
    for (const int i : {20, 40, 63})
      CHECK(loads[static_cast<std::size_t>(i)] / loads[10] ==
            doctest::Approx(std::pow((i + 1.0) / 11, -exponent)).epsilon(1e-9));
  }
  const std::vector<double> steep = zipf_loads(8, 2, 2);  // the first has all tokens, the others the rest
  CHECK(steep[0] == 4);
  CHECK(steep[1] ==
        doctest::Approx(4 * (1 / 4.0) / (1 / 4.0 + 1 / 9.0 + 1 / 16.0 + 1 / 25.0 + 1 / 36.0 + 1 / 49.0 + 1 / 64.0)));
}

TEST_CASE("GPUs have the loads of their experts, other ones in other layers, and no more than places") {
  ExpertSplit split{.degree = 8, .zipf = 1};
  std::vector<double> of_layer[2];
  for (const int layer : {0, 1}) {
    const ExpertLoads loads{split, {32, 2, layer}};
    CHECK(loads.of_gpus == ExpertLoads{split, {32, 2, layer}}.of_gpus);
    CHECK(sum_of(loads.of_gpus) == doctest::Approx(8).epsilon(1e-12));
    CHECK(std::ranges::max(loads.of_gpus) > 1.2);
    of_layer[layer] = loads.of_gpus;
  }
  CHECK(of_layer[0] != of_layer[1]);
  split.capacity = 1;
  for (std::size_t gpu = 0; const double load : ExpertLoads{split, {32, 2, 0}}.of_gpus) {
    CHECK(load <= 1);
    CHECK(load <= of_layer[0][gpu++]);
  }
  CHECK(ExpertLoads{{.degree = 8}, {32, 2, 0}}.of_gpus.empty());
}

TEST_CASE(
    "machines get tokens as often as with even loads if these are nearly even, and no more than a router lets them") {
  ExpertSplit split{.degree = 32, .machines = 4, .zipf = 1e-9};
  const ExpertsOfLayer mixture{64, 6, 3};
  CHECK(sum_of(ExpertLoads{split, mixture}.of_machines) ==
        doctest::Approx(machines_of_token(split, mixture)).epsilon(1e-6));
  split.zipf = 1.2;
  const std::vector<double> shares = ExpertLoads{split, mixture}.of_machines;
  CHECK(std::ranges::max(shares) > 1.05 * std::ranges::min(shares));
  CHECK(std::ranges::max(shares) <= 1);
  split.machines_per_token = 2;
  CHECK(sum_of(ExpertLoads{split, mixture}.of_machines) == doctest::Approx(2).epsilon(1e-9));
}

}  // namespace rehearse
