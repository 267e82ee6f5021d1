// Each worker averages its model with that of a random other worker in every step and waits for nobody. The program of a step:
// compile_pairwise.cpp. Source: Lian et al., Asynchronous Decentralized Parallel SGD, ICML 2018.

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/training/strategies/strategies.hpp"
#include "sim/training/strategy_compiler.hpp"

namespace rehearse {

namespace {

class PairwiseAveraging final : public StrategyKind {
 public:
  std::string title() const override { return "pairwise averaging"; }

  bool is_synchronous() const override { return false; }
  bool is_in_lockstep() const override { return false; }
  bool exchanges_models() const override { return true; }
  const CollectiveRules* collectives() const override { return nullptr; }

  std::string explain(const Scenario& scenario) const override {
    std::array<char, 100> text{};
    std::snprintf(text.data(), text.size(), "in each step a worker fetches one model of %.4g MB",
                  as_double(scenario.workload.parameter_bytes()) / 1e6);
    return text.data();
  }

  std::unique_ptr<StrategyCompiler> compiler(const Site& site) const override { return pairwise_compiler(site); }
};

std::shared_ptr<const StrategyKind> read_pairs(const JsonReader&, Scenario&, Json&) {
  return std::make_shared<PairwiseAveraging>();
}

std::vector<Refusal> refusals_of_pairs() {
  return {
      {"gradients of workers that exchange models",
       [](const Refusal::Subject& s) {
         return stated_of_strategy(s, {"algorithm", "sharding", "prefetched_units", "gather_bucket_size",
                                       "reduce_scatter", "pipeline", "bucket_size", "first_bucket_size",
                                       "partition_size", "cycle_time", "order", "overlap", "gradient_precision"});
       },
       "none with \"pairwise_averaging\"", "workers exchange whole models, each at once, and no gradients"},
  };
}

}  // namespace

StrategyEntry pairwise_averaging() {
  return {"pairwise_averaging", read_pairs, {{[] { return std::string{"{}"}; }, refusals_of_pairs}}};
}

}  // namespace rehearse
