#pragma once
// A toy of tensor parallelism, as a strategy of one's own: all that it takes is in this file. All workers hold the model together:
// of two products each has columns of the first and rows of the second, and the rest whole. Their sums are added up by one
// all-reduce forward, behind the rows, and one backward, behind the columns.
// Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/training/strategy_compiler.hpp"

namespace rehearse::test {

class TensorParallel final : public StrategyKind {
 public:
  TensorParallel(int degree, std::string columns, std::string rows)
      : degree_{degree}, columns_{std::move(columns)}, rows_{std::move(rows)} {}

  static std::shared_ptr<const StrategyKind> read(const JsonReader& json, Scenario& scenario, Json&) {
    const auto degree = json.required<int>("degree");
    json.expect(degree >= 2 && degree == scenario.count(Role::kWorker), "degree", "the number of workers, at least 2");
    return std::make_shared<TensorParallel>(degree, json.required<std::string>("columns"),
                                            json.required<std::string>("rows"));
  }
  static std::string schema() {
    return R"({ "properties": {
      "degree": { "type": "integer", "minimum": 2, "description": "tensor_parallel: workers of which each has a part" },
      "columns": { "type": "string", "description": "tensor_parallel: the layer of which each has columns" },
      "rows": { "type": "string", "description": "tensor_parallel: the later layer of which each has rows" } } })";
  }
  static std::vector<Refusal> refusals() {
    return {{"gradients of parts that nobody else has",
             [](const Refusal::Subject& s) {
               return stated_of_strategy(s, {"bucket_size", "first_bucket_size", "partition_size", "cycle_time",
                                             "order", "overlap", "gradient_precision"});
             },
             "none with \"tensor_parallel\"", "activations are added up, and no gradients"},
            {"products that are cut over machines",
             [](const Refusal::Subject& s) { return place_if(s.scenario->islands().size() > 1, kGroups); },
             "all workers on one machine, or in one \"nvlink_domain\"", "nothing hides the sums of products"}};
  }

  std::string title() const override { return "tensor parallel over " + std::to_string(degree_) + " workers"; }
  std::vector<RankGrid::Degree> model_axes() const override { return {{Axis::kTensor, degree_}}; }
  int parts_of(const Scenario& scenario, std::size_t variable) const override {
    const std::string& name = scenario.workload.variables[variable].name;
    return name == columns_ || name == rows_ ? degree_ : 1;
  }

  void divide(ComputePlan& plan, const Scenario& scenario) const override {
    double whole = 0, kept = 0;
    for (std::size_t v = 0; v < scenario.workload.variables.size(); ++v) {
      whole += as_double(scenario.workload.variables[v].bytes);
      kept += as_double(scenario.workload.variables[v].bytes) / parts_of(scenario, v);
    }
    plan.update = plan.update * (kept / whole);
    for (PlannedKernel& kernel : plan.kernels) {
      const int variable = variable_of(scenario.workload.graph[static_cast<std::size_t>(kernel.vertex)]);
      if (variable < 0) continue;
      const double share = 1.0 / parts_of(scenario, static_cast<std::size_t>(variable));
      plan.gpu_time -= kernel.time.total * (1 - share);
      kernel.time = {kernel.time.total * share, kernel.time.memory * share, kernel.time.launch * share};
    }
  }

  void check(const Scenario& scenario, const JsonReader& json) const override {
    for (const auto& [key, layer] : {std::pair{"columns", columns_}, std::pair{"rows", rows_}})
      if (std::none_of(scenario.workload.variables.begin(), scenario.workload.variables.end(),
                       [&, &name = layer](const Variable& variable) { return variable.name == name; }))
        json.fail(key, "expected a layer with variables; found " + in_quotes(layer));
  }

  std::string explain(const Scenario&) const override {
    return "in each pass " + std::to_string(degree_) + " workers add up what " + rows_ +
           " computes, and the gradients of " + columns_;
  }
  std::map<std::string, std::string> verdict_remedies() const override {
    return {{"network", "fewer workers that share a product"}};
  }
  std::vector<StrategyRemedy> remedies(const Scenario&, const Json&) const override {
    return {{"data parallel instead", {R"(/training/strategy={"kind":"all_reduce"})"}, RemedyKind::kOtherTraining}};
  }

  std::unique_ptr<StrategyCompiler> compiler(const Site& site) const override;

  const std::string& columns() const { return columns_; }
  const std::string& rows() const { return rows_; }
  /// Whose product a kernel computes, forward or backward; -1: none.
  static int variable_of(const Operator& kernel) {
    if (!kernel.reads_variables.empty()) return kernel.reads_variables.front();
    return kernel.produces_gradients.empty() ? -1 : kernel.produces_gradients.front();
  }

 private:
  int degree_;
  std::string columns_, rows_;
};

class TensorProgram final : public StrategyCompiler {
 public:
  TensorProgram(const Site& site, const TensorParallel& strategy) : StrategyCompiler{site}, strategy_{strategy} {}

  std::vector<WorkerGroup> groups() const override { return {{"tensor", grid().along(Axis::kTensor, 0)}}; }

  Program compile(const WorkerStep& step, FirstVariables) const override {
    const OperatorGraph& graph = scenario().workload.graph;
    ProgramBuilder builder;
    builder.program().labels = {"outputs of " + strategy_.rows(), "gradients of " + strategy_.columns()};
    OperationIndex last = builder.add(Delay{.time = step.plan->step_overhead});
    const auto then = [&](const Operation& operation) {
      const OperationIndex added = builder.add(operation);
      builder.order(last, added);
      last = added;
    };
    then(BeginKernels{});
    for (int pass = 0; pass < step.passes; ++pass)
      for (std::size_t k = 0; const OperationIndex kernel : compile_kernels(builder, *step.plan, 1, 0).first) {
        const Operator& computes = graph[at(step.plan->kernels[k++].vertex)];
        builder.order(last, kernel);
        last = kernel;
        const bool is_forward = computes.phase == Phase::kForward;
        const int variable = TensorParallel::variable_of(computes);
        if (variable < 0) continue;
        const std::string& name = scenario().workload.variables[at(variable)].name;
        if (name != (is_forward ? strategy_.rows() : strategy_.columns())) continue;
        const Bytes sum = is_forward ? computes.output : graph[at(computes.backward_of)]->kept;
        then(Collective{.label = is_forward ? 0 : 1, .bytes = sum});
      }
    then(Update{});
    then(Delay{.time = step.plan->update});
    then(Fence{});
    return builder.finish();
  }

 private:
  const TensorParallel& strategy_;
};

inline std::unique_ptr<StrategyCompiler> TensorParallel::compiler(const Site& site) const {
  return std::make_unique<TensorProgram>(site, *this);
}

}  // namespace rehearse::test
