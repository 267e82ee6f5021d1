#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibration/trace_measurements.hpp"
#include "sim/base/base.hpp"
#include "sim/plan/recorded_model.hpp"
#include "sim/plan/replay_report.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "workloads/importers/importer.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/traces/chakra_run.hpp"
#include "workloads/traces/pytorch_et.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse::fuzz {
namespace {

void require_sound(const Workload& workload) {
  std::vector<int> produced(workload.variables.size());
  for (std::size_t v = 0; v < workload.graph.size(); ++v) {
    const Operator& op = workload.graph[v];
    require(op.flops >= Flops{} && op.flops < Flops{1e30}, "FLOPs are finite and not negative");
    require(op.bytes_read > Bytes{} && op.bytes_written > Bytes{}, "every kernel reads and writes");
    const bool is_matrix = op.matrix.reduction > 0;
    for (const double size : {op.matrix.rows, op.matrix.columns, op.matrix.reduction})
      require(is_matrix ? size >= 1 : size == 0, "a matrix shape is whole or not there");
    require(op.matrix.products >= 1, "there is at least one product");
    require(!is_matrix || op.flops > Flops{}, "matrix products have FLOPs");
    require(op.kind != OperatorKind::kDense || is_matrix, "dense layers are matrix products");
    for (const std::int64_t size : op.output_shape) require(size >= 1, "shapes are positive");
    for (const int variable : op.produces_gradients) ++produced.at(static_cast<std::size_t>(variable));
  }
  for (const int count : produced) require(count == 1, "every gradient or moving average is produced once");
  for (const OperatorEdge& edge : workload.graph.edges())
    require(edge.from < edge.to, "creation order is a topological order");
  require(workload.input_bytes > Bytes{} && workload.activation_bytes >= Bytes{}, "byte counts do not overflow");
  require(workload.parameter_bytes() > Bytes{} && workload.variable_bytes() >= workload.parameter_bytes(),
          "parameters are among the variables");
}

void run_model(std::string_view input) {
  try {
    const Json json = parse_json(input, "input");
    ModelDescription model = read_model("model", JsonReader{json, "input"});
    for (const int batch : {1, 65536}) require_sound(build_workload(model, batch, Precision::kFp32, "input"));
    if (!std::holds_alternative<Transformer>(model.structure)) return;
    for (bool Recomputation::*const part :
         {&Recomputation::layers, &Recomputation::every_second_product, &Recomputation::core_attention,
          &Recomputation::feed_forward, &Recomputation::activations, &Recomputation::norms}) {
      model.again = {};
      model.again.*part = true;
      require_sound(build_workload(model, 2, Precision::kFp16, "input"));
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A file of another tool, told by its content, and the model that it becomes.
void run_import(std::string_view input) {
  try {
    const ImportedModel imported = import_model(Source{"input", std::string{input}});
    for (const std::string& remark : imported.remarks) require_one_line(remark);
    const ModelDescription model = read_model("model", JsonReader{imported.model_file, "imported"});
    const auto* timed = std::get_if<TimedLayers>(&model.structure);
    const Workload workload = build_workload(model, timed != nullptr ? timed->batch : 3, Precision::kFp32, "imported");
    if (timed == nullptr) require_sound(workload);
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// What a trace says of dependencies, and their replay.
template <class Read>
void replay_recording(Read read) {
  try {
    RecordedRun run = read();
    for (const Dependency& dependency : run.dependencies)
      require(dependency.earlier < dependency.later, "nothing waits for what comes later");
    for (const RecordedOperation& operation : run.operations) require(operation.duration >= 0, "everything takes time");
    require(unexplained_time(run).share() <= 1, "no more is unexplained than there is");
    const RecordedJob job = recorded_job({std::move(run)});
    const ReplayReport report = replay_report(job, replay(job));
    require(report.whole.replayed >= Seconds{}, "something was replayed");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// As a whole; and some of its steps, from a temporary file, as measurements and as a model.
void run_kineto(std::string_view input) {
  replay_recording([&] { return recorded_run(parse_kineto_trace(input, "input")); });
  try {
    const RecordedJob job =
        recorded_job({recorded_run(parse_kineto_trace(input, "input", {.steps = {}, .most_events = 8}))});
    const CsvTable measured = measurements_of(job, "input");
    for (const CsvRow& row : measured.rows()) require(row.number("time_s") >= 0, "measurements are not negative");
    const RecordedModel model = recorded_model(job, {.batch = 8, .variables = {}});
    for (const TimedLayer& layer : model.layers.layers)
      require(layer.forward >= Seconds{} && layer.backward >= Seconds{}, "layers take time");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_chakra_json(std::string_view input) {
  replay_recording([&] { return recorded_run(parse_chakra_json(input, "input")); });
}

void run_pytorch_et(std::string_view input) {
  try {
    const PytorchTrace trace = parse_pytorch_trace(input, "input");
    KinetoTrace kineto{.file_name = "kineto", .names = trace.names, .threads = {"1"}};
    for (const PytorchOperator& found : trace.operators) {
      require(found.inputs.empty() || found.inputs.front().bytes() >= 0, "a tensor has a size");
      kineto.events.push_back({.duration = 1, .name = found.name, .lane = 0});
    }
    for (const std::int32_t found : linked_operators(kineto, trace))
      require(found < static_cast<std::int32_t>(trace.operators.size()), "events are linked to operators");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// What is read is the same after it was written.
void run_chakra_et(std::string_view input) {
  (void)begins_as_chakra_et(input);
  replay_recording([&] {
    const ChakraTrace trace = parse_chakra_et(input, "input");
    const std::string bytes = chakra_et_bytes(trace);
    require(chakra_et_bytes(parse_chakra_et(bytes, "input")) == bytes, "what is written is read back");
    const RecordedRun run = recorded_run(trace);
    const RecordedRun again = recorded_run(chakra_trace(run));
    require(again.dependencies == run.dependencies && again.collectives == run.collectives,
            "a recording is the same after it was a trace of Chakra");
    return run;
  });
}

}  // namespace

std::span<const Target> targets_of_workloads() {
  static constexpr std::array kTargets{
      Target{"model", run_model},         Target{"kineto", run_kineto},         Target{"chakra_json", run_chakra_json},
      Target{"chakra_et", run_chakra_et}, Target{"pytorch_et", run_pytorch_et}, Target{"import", run_import}};
  return kTargets;
}

}  // namespace rehearse::fuzz
