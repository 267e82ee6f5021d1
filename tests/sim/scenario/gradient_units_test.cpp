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

TEST_CASE("frozen parameters are gathered with all others, whatever units they are in") {
  const auto units_of = [](const Json& keys) {
    Json strategy{{"kind", "all_reduce"}, {"sharding", "parameters"}};
    strategy.update(keys);
    Json scenario = test::timed_scenario(4, {{"4B"}}, strategy);
    scenario["training"]["strategy"] = strategy;
    scenario["workload"]["model"] = test::small_transformer();
    scenario["workload"]["lora"] = {{"rank", 2}};
    return test::resolved(scenario);
  };
  const Scenario blocks = units_of(Json::object());
  Bytes all{}, trained{};
  for (const Variable& variable : blocks.workload.variables) {
    all += variable.bytes;
    if (variable.is_trainable) trained += variable.bytes;
  }
  for (const Json& keys :
       {Json::object(), Json{{"bucket_size", "0B"}}, Json{{"bucket_size", "1KiB"}}, Json{{"bucket_size", "25MiB"}},
        Json{{"bucket_size", "1MiB"}, {"first_bucket_size", "2KiB"}}, Json{{"cycle_time", "1ms"}}}) {
    CAPTURE(keys.dump());
    const Scenario scenario = units_of(keys);
    const GradientUnits units = plan_gradient_units(scenario, 0);
    CHECK(sums(units).value == all);
    CHECK(sums(units).gradient == trained);
    std::size_t variables = 0;
    for (const GradientUnit& unit : units.units) variables += unit.variables.size();
    CHECK(variables == scenario.workload.variables.size());
  }
}

TEST_CASE("what workers have updated and keep as a whole is gathered as they store it") {
  const auto value_of = [](const char* sharding, const char* weights) {
    Json scenario = test::timed_scenario(4, {{"4B"}}, {{"kind", "all_reduce"}, {"sharding", sharding}});
    scenario["workload"]["model"] = test::small_transformer();
    scenario["workload"].update({{"precision", "fp16"}, {"states", {{"weights", weights}}}});
    const Scenario resolved = test::resolved(scenario);
    return sums(plan_gradient_units(resolved, 0)).value.value() / resolved.workload.parameters();
  };
  for (const char* sharding : {"optimizer", "gradients"}) {
    CHECK(value_of(sharding, "fp16") == 2);
    CHECK(value_of(sharding, "fp32") == 4);
  }
  CHECK(value_of("parameters", "fp32") == 2);  // for kernels
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
