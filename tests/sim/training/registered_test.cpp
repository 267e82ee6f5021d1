// A strategy and an all-reduce of one's own: all that they take is in this file.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "sim/collective/collective.hpp"
#include "sim/training/strategy_compiler.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::check_time;

/// In rounds, with a partner twice as far away in each, workers exchange what they have added up: log2(p) (a + n / b),
/// p a power of two.
const CollectiveAlgorithm kRecursiveDoubling = register_all_reduce(
    "recursive_doubling",
    {.title = "recursive doubling all-reduce", .plan = [](const std::vector<Endpoint>& gpus, Network& network, bool) {
       CollectivePlan plan;
       if (!std::has_single_bit(gpus.size())) return plan;
       for (std::size_t distance = 1; distance < gpus.size(); distance *= 2) {
         plan.emplace_back();
         for (std::size_t i = 0; i < gpus.size(); ++i)
           plan.back().edges.push_back(network.path(gpus[i], gpus[i ^ distance]));
       }
       return plan;
     }});

/// Each worker sends a hundredth of its gradients, the largest, to all others, after its backward pass.
class SparseProgram final : public StrategyCompiler {
 public:
  using StrategyCompiler::StrategyCompiler;
  Program compile(const WorkerStep& step, FirstVariables) const override {
    ProgramBuilder builder;
    OperationIndex last = builder.add(BeginKernels{});
    const auto then = [&](const Operation& operation) {
      const OperationIndex added = builder.add(operation);
      builder.order(last, added);
      last = added;
    };
    const CompiledKernels kernels = compile_kernels(builder, *step.plan, step.passes, 0);
    builder.order(last, kernels.first.front());
    last = kernels.last.back();
    for (const GradientUnit& unit : plan_gradient_units(scenario(), 0).units) {
      const auto label = static_cast<int>(builder.program().labels.size());
      builder.program().labels.push_back(unit.name);
      then(Collective{.kind = CollectiveKind::kAllGather, .label = label, .bytes = unit.gradient_bytes / 100});
    }
    then(Update{});
    then(Fence{});
    return builder.finish();
  }
};

class SparseGradients final : public StrategyKind {
 public:
  std::string title() const override { return "sparse gradients"; }
  std::unique_ptr<StrategyCompiler> compiler(const Site& site) const override {
    return std::make_unique<SparseProgram>(site);
  }
};

std::shared_ptr<const StrategyKind> read_sparse(const JsonReader&, Scenario&, Json&) {
  return std::make_shared<SparseGradients>();
}

const bool kIsRegistered = [] {
  register_strategy({"sparse_gradients", read_sparse, {}});
  return true;
}();

}  // namespace

TEST_CASE("an all-reduce that is registered is one of a scenario's, and takes the time of its plan") {
  Json scenario =
      test::timed_scenario(8, {{"10000000B"}}, {{"kind", "all_reduce"}, {"algorithm", "recursive_doubling"}});
  scenario["training"]["steps"] = 4;
  check_time(scenario, 4 * (3e-3 + 3 * (10e-6 + 10e-3)));
  CHECK(describe_strategy(test::resolved(scenario).training.strategy) == "recursive doubling all-reduce");
  CHECK_THROWS_WITH(register_all_reduce("ring", {}), "there is an all-reduce algorithm \"ring\" already");
}

TEST_CASE("an all-reduce that does not work among the GPUs is refused, not free") {
  const Json scenario =
      test::timed_scenario(6, {{"10000000B"}}, {{"kind", "all_reduce"}, {"algorithm", "recursive_doubling"}});
  const Json outcome = test::in_child([&] { return Json{simulate(test::resolved(scenario)).end.value()}; });
  REQUIRE(outcome.contains("error"));
  CHECK(outcome["error"].get<std::string>().find("/training/strategy/algorithm: a recursive doubling all-reduce does "
                                                 "not work among 6 GPUs of these machines") != std::string::npos);
}

TEST_CASE("a registered algorithm and a registered strategy are in the schema") {
  const Json schema = parse_json(scenario_schema(), "schema");
  const Json& strategy = schema["properties"]["training"]["properties"]["strategy"]["properties"];
  const auto has = [](const Json& words, const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  CHECK(has(strategy["algorithm"]["enum"], "recursive_doubling"));
  CHECK(has(strategy["kind"]["enum"], "sparse_gradients"));
}

TEST_CASE("a strategy that is registered is one of a scenario's, and runs its program") {
  // All-gather by a ring of five: 4 (a + n / 5 / b), n: what all of them have together.
  REQUIRE(kIsRegistered);
  Json scenario = test::timed_scenario(5, {{"100000000B"}}, {{"kind", "sparse_gradients"}});
  scenario["training"]["steps"] = 3;
  check_time(scenario, 3 * (3e-3 + 4 * (10e-6 + 1e6 / 5 / 1e9)));
  CHECK(describe_strategy(test::resolved(scenario).training.strategy) == "sparse gradients");
  CHECK(program_text(test::resolved(scenario)).find("all-gather") != std::string::npos);
  CHECK_THROWS_WITH(register_strategy({"all_reduce", read_sparse, {}}), "there is a strategy \"all_reduce\" already");
}

TEST_CASE("a strategy that is registered joins with leaving workers as the others do") {
  Json scenario = test::timed_scenario(2, {{"100000000B"}}, {{"kind", "sparse_gradients"}});
  Json late = scenario["cluster"]["groups"][0];
  late["name"] = "late";
  late["joins_at"] = "1s";
  late["leaves_at"] = "2s";
  scenario["cluster"]["groups"].push_back(late);
  scenario["training"]["steps"] = 2000;
  const test::Times times = test::times_of(scenario);
  CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
}

}  // namespace rehearse
