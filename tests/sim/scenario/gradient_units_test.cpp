#include "sim/scenario/gradient_units.hpp"

#include <doctest/doctest.h>

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

struct Sums {
  Bytes gradient, value, stored;
};

Sums sums(const GradientUnits& units) {
  Sums sums{};
  for (const GradientUnit& unit : units.units) {
    sums.gradient += unit.gradient_bytes;
    sums.value += unit.value_bytes;
    sums.stored += unit.stored_bytes;
  }
  return sums;
}

/// One table of 1000 rows of 4, and dense layers 2-4, 5-2 and 2-1.
Scenario recommender(const Json& strategy, int servers) {
  Json scenario = test::timed_scenario(2, {{"4B"}}, strategy);
  scenario["workload"]["model"]["structure"] = {{"family", "dlrm"}, {"dense_features", 2}, {"tables", {1000}},
                                                {"embedding", 4},   {"bottom", {4}},       {"top", {2}}};
  scenario["workload"]["batch_per_worker"] = 8;
  return test::resolved(servers > 0 ? test::with_servers(scenario, servers) : scenario);
}

}  // namespace

TEST_CASE("servers hold a sparse table, and exchange the rows of a batch; all-reduce sends all of it") {
  const std::int64_t rows = 8 * 4 * 4, dense = 4 * (2 * 4 + 4 + 4 * 4 + 4 + 5 * 2 + 2 + 2 + 1);
  const Sums served = sums(plan_gradient_units(
      recommender({{"kind", "parameter_server"}, {"synchronization", "asynchronous"}, {"partition_size", "1KiB"}}, 1),
      1));
  CHECK(served.gradient == Bytes{rows + dense});
  CHECK(served.value == Bytes{rows + dense});
  CHECK(served.stored == Bytes{1000 * 4 * 4 + dense});
  Json strategy{{"kind", "parameter_server"}, {"synchronization", "asynchronous"}};
  const std::size_t variables = plan_gradient_units(recommender(strategy, 1), 1).units.size();
  strategy["partition_size"] = "9223372036854775807B";  // no variable is cut, however large a piece may be
  CHECK(plan_gradient_units(recommender(strategy, 1), 1).units.size() == variables);
  const Sums reduced = sums(plan_gradient_units(recommender({{"kind", "all_reduce"}}, 0), 0));
  CHECK(reduced.gradient == Bytes{1000 * 4 * 4 + dense});
}

TEST_CASE("gradients are sent in the workload's precision or in another one") {
  const auto sent = [](const char* precision, const Json& gradients) {
    Json strategy{{"kind", "all_reduce"}};
    if (!gradients.is_null()) strategy["gradient_precision"] = gradients;
    Json scenario = test::timed_scenario(2, {{"4B"}}, strategy);
    scenario["workload"]["model"]["structure"] = {{"family", "dlrm"}, {"dense_features", 2}, {"tables", {1000}},
                                                  {"embedding", 4},   {"bottom", {4}},       {"top", {2}}};
    scenario["workload"]["precision"] = precision;
    return sums(plan_gradient_units(test::resolved(scenario), 0)).gradient;
  };
  const Bytes single = sent("fp32", nullptr);
  CHECK(sent("fp32", "fp32") == single);
  CHECK(sent("fp16", "fp32") == single);
  CHECK(sent("fp16", nullptr) * 2 == single);
  CHECK(sent("fp16", "fp16") * 2 == single);
  CHECK(sent("fp32", "fp16") * 2 == single);
}

}  // namespace rehearse
