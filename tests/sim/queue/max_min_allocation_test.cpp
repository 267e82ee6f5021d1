// The allocation against closed forms, a search over a grid, and its own constraints.

#include "sim/queue/max_min_allocation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "sim/base/random.hpp"

namespace rehearse {

namespace {

using Rows = std::vector<std::vector<double>>;

double least_of(const Rows& rates, const Rows& shares) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < rates.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < rates[i].size(); ++j) sum += rates[i][j] * shares[i][j];
    least = std::min(least, sum);
  }
  return least;
}

void check_constraints(const Rows& shares, const std::vector<double>& gpus, const std::vector<double>& capacity) {
  std::vector<double> used(capacity.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    double time = 0;
    for (std::size_t j = 0; j < capacity.size(); ++j) {
      CHECK(shares[i][j] >= 0);
      time += shares[i][j];
      used[j] += gpus[i] * shares[i][j];
    }
    CHECK(time <= 1);
  }
  for (std::size_t j = 0; j < capacity.size(); ++j) CHECK(used[j] <= capacity[j]);
}

}  // namespace

TEST_CASE("equal jobs share one type of GPU equally, and have all of their time where there are enough") {
  // 8 jobs of 1 GPU on 2 GPUs: a quarter of the time each
  const Rows of_few = max_min_allocation(Rows(8, {1.0}), std::vector<double>(8, 1), {2});
  for (const auto& row : of_few) CHECK(row[0] == doctest::Approx(0.25).epsilon(1e-5));
  const Rows of_many = max_min_allocation(Rows(2, {1.0}), {1, 1}, {5});
  for (const auto& row : of_many) CHECK(row[0] == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("gangs of more GPUs get the same service for less time, by the weight that their rate has") {
  // rates = gpus: x_1 = 4 x_4, and x_1 + 4 x_4 = 4 GPUs, x_1 <= 1: t = 1, x_4 = 0.25 to 0.75
  const Rows shares = max_min_allocation({{1}, {4}}, {1, 4}, {4});
  CHECK(least_of({{1}, {4}}, shares) == doctest::Approx(1).epsilon(1e-5));
  CHECK(shares[1][0] > 0.25);
}

TEST_CASE("who gains most from fast GPUs has them") {
  // One GPU of each type. The second job reaches 3 with all of its time alone; the first then needs 2/3 of type 0, as
  // 4 a + b = 3 and b <= 1 - a.
  const Rows rates{{4, 1}, {3, 3}};
  const Rows shares = max_min_allocation(rates, {1, 1}, {1, 1});
  CHECK(least_of(rates, shares) == doctest::Approx(3).epsilon(1e-5));
  CHECK(shares[0][0] >= 2.0 / 3 - 1e-4);
}

TEST_CASE("no allocation of a grid has a larger least share, and constraints hold") {
  Rng rng{7, "allocations"};
  for (int round = 0; round < 40; ++round) {
    const Rows rates{{rng.uniform(0.1, 5), rng.uniform(0.1, 5)}, {rng.uniform(0.1, 5), rng.uniform(0.1, 5)}};
    const std::vector<double> gpus{1.0 + static_cast<double>(rng.below(3)), 1.0 + static_cast<double>(rng.below(3))};
    const std::vector<double> capacity{3, 3};
    const Rows shares = max_min_allocation(rates, gpus, capacity);
    check_constraints(shares, gpus, capacity);
    constexpr int kSteps = 40;
    double best = 0;
    for (int a = 0; a <= kSteps; ++a)
      for (int b = 0; a + b <= kSteps; ++b)
        for (int c = 0; c <= kSteps; ++c)
          for (int d = 0; c + d <= kSteps; ++d) {
            const Rows x{{a / 40.0, b / 40.0}, {c / 40.0, d / 40.0}};
            if (gpus[0] * x[0][0] + gpus[1] * x[1][0] > capacity[0]) continue;
            if (gpus[0] * x[0][1] + gpus[1] * x[1][1] > capacity[1]) continue;
            best = std::max(best, least_of(rates, x));
          }
    const double found = least_of(rates, shares);
    CHECK(found >= best * (1 - 1e-5));
    CHECK(found <= best + 5.0 / kSteps);
  }
}

TEST_CASE("a rate of 0 keeps a job off a type, and so do too few GPUs there") {
  const Rows shares = max_min_allocation({{0, 1}, {1, 1}}, {1, 4}, {4, 2});
  CHECK(shares[0][0] == 0);
  CHECK(shares[1][1] == 0);
  CHECK(shares[0][1] == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("many jobs of many sizes are within the gap of their optimum") {
  // One type: t = capacity / sum gpus_i / rate_i where no job has all of its time.
  Rng rng{3, "many"};
  Rows rates;
  std::vector<double> gpus;
  double sum = 0;
  for (int i = 0; i < 500; ++i) {
    rates.push_back({rng.uniform(0.5, 2)});
    gpus.push_back(static_cast<double>(std::uint64_t{1} << rng.below(4)));
    sum += gpus.back() / rates.back()[0];
  }
  const Rows shares = max_min_allocation(rates, gpus, {64});
  check_constraints(shares, gpus, {64});
  CHECK(least_of(rates, shares) == doctest::Approx(64 / sum).epsilon(1e-4));
}

}  // namespace rehearse
