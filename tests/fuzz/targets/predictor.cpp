#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/driple/measured_dataset.hpp"
#include "predictor/driple_dataset.hpp"
#include "predictor/driple_export.hpp"
#include "predictor/features.hpp"
#include "predictor/grouped_graphs.hpp"
#include "predictor/labels.hpp"
#include "predictor/measured_series.hpp"
#include "predictor/measurement_list.hpp"
#include "predictor/torch_file.hpp"
#include "sim/base/base.hpp"
#include "tests/fuzz/targets/require.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "workloads/importers/graph_def.hpp"
#include "workloads/traces/counters.hpp"

namespace rehearse::fuzz {
namespace {

/// A dataset file.
void run_dataset(std::string_view input) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("data.sqlite", std::string{input});
  try {
    const Dataset data = load_dataset(file);
    for (const Sample& sample : data.samples) {
      require(static_cast<std::size_t>(sample.graph) < data.graphs.size() &&
                  static_cast<std::size_t>(sample.setting) < data.settings.size(),
              "a sample has a graph and a setting");
      require(sample.labels.size() == data.labels.size(), "a sample has all labels");
    }
    for (const DatasetGraph& graph : data.graphs)
      for (const GraphEdge& edge : graph.edges)
        require(static_cast<std::size_t>(std::max(edge.from, edge.to)) < data.nodes(graph), "edges join nodes");
    const FeatureReader reader{data};
    for (const Sample& sample : data.samples)
      if (!sample.step.empty())
        require(reader.read(data, sample).totals.size() == reader.total_inputs(), "features have their size");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_torch_file(std::string_view input) {
  try {
    const TorchValue value = parse_torch_file(input, "input");
    const std::string text = to_torch_file(value);
    require(to_torch_file(parse_torch_file(text, "output")) == text, "a written torch file is read back the same");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_graph_def(std::string_view input) {
  for (const bool is_text : {true, false}) {
    try {
      require(!parse_graph_def(input, is_text, "input").empty(), "a GraphDef has a node");
    } catch (const InputError& error) { require_one_line(error.what()); }
  }
}

void run_measurement_list(std::string_view input) {
  try {
    const MeasurementList list = read_measurement_list(parse_json(input, "input"), "input");
    require(!list.runs.empty() || !list.jobs.empty(), "a list has entries");
    for (const MeasuredRun& profile : list.runs) {
      require(profile.series || profile.step_time, "a profile has a label");
      for (const std::string& text : profile.where.overrides)
        require(text.starts_with('/') && text.find('=') != std::string::npos, "overrides are pointer=value");
    }
  } catch (const InputError& error) { require_one_line(error.what()); }
}

void run_measured_series(std::string_view input) {
  try {
    const MeasuredSeries series = read_measured_series(parse_csv(std::string{input}, "input"));
    require(series.period > Seconds{}, "a period is above 0");
    for (const double label : labels_of(series, std::nullopt)) require(!(label < 0), "labels are not negative");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A trace's counters, and what a measured job makes of them.
void run_counters(std::string_view input) {
  try {
    const std::vector<TraceCounter> counters = parse_trace_counters(input, "input");
    for (const TraceCounter& counter : counters)
      require(!counter.samples.empty() && std::ranges::is_sorted(counter.samples, {}, &CounterSample::date),
              "a counter has values, by date");
    const MeasuredSeries series = read_measured_series(counters, "input");
    require(series.period > Seconds{}, "a period is above 0");
    for (const double label : labels_of(series, std::nullopt)) require(!(label < 0), "labels are not negative");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// A list of measured jobs beside a scenario, a GraphDef, a trace and a CSV that it may name.
void run_measured_jobs(std::string_view input) {
  static const std::string root = source_folder();
  static const Catalog catalog{
      {{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  if (input.find("..") != std::string_view::npos || input.find("\"/dev") != std::string_view::npos) return;
  const test::TemporaryFolder folder;
  folder.write("s.json", read_file(root + "/scenarios/driple/01-v100-ps1-w2.json", kMiB));
  folder.write(
      "g.pbtxt",
      R"(node { name: "a" op: "Relu" device: "GPU:0" attr { key: "_output_shapes" value { list { shape { dim { size: 4 } } } } } })");
  folder.write("t.json", R"([{"ph":"C","name":"gpu_utilization","pid":1,"ts":0,"args":{"value":0}},
    {"ph":"C","name":"gpu_utilization","pid":1,"ts":1000,"args":{"value":1}},
    {"ph":"C","name":"gpu_utilization","pid":1,"ts":2000,"args":{"value":0}}])");
  folder.write("s.csv", "time_s,receive_Bps\n0,0\n0.1,5\n0.2,0\n");
  try {
    const MeasuredDataset made =
        measured_dataset_of(load_measurement_list(folder.write("list.json", std::string{input})), catalog, {});
    const std::filesystem::path file = folder / "made.db";
    write_dataset(file, made.dataset);
    require(load_dataset(file).samples.size() == made.dataset.samples.size(), "what is written is read back");
  } catch (const InputError& error) { require_one_line(error.what()); } catch (const NoResultError& error) {
    require_one_line(error.what());
  }
}

void run_driple_dataset(std::string_view input) {
  try {
    const DripleDataset dataset = parse_driple_dataset(input, "input");
    for (const auto* part : {&dataset.train, &dataset.val, &dataset.test})
      for (const DripleSample& sample : *part)
        for (const auto& [from, to] : sample.edges)
          require(from < to && to < sample.features.size(), "edges join nodes of their graph");
    const Dataset whole = dataset_of(dataset, {"input", "input"});
    require(whole.samples.size() == dataset.train.size() + dataset.val.size() + dataset.test.size(),
            "no graph is lost");
    for (const Sample& sample : whole.samples)
      for (const double label : sample.labels) require(!(label < 0), "labels are at least 0, or not known");
    require(repeated_graphs(whole) <= whole.graphs.size(), "repeated graphs are some of all");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

/// Graphs of groups of operators.
void run_grouped_graphs(std::string_view input) {
  try {
    for (const NamedGroups& graph : read_grouped_graphs(parse_json(input, "input"), "input"))
      for (const auto& [from, to] : graph.groups.edges)
        require(from < to && to < graph.groups.features.size(), "edges join nodes of their graph");
  } catch (const InputError& error) { require_one_line(error.what()); }
}

}  // namespace

std::span<const Target> targets_of_predictor() {
  static constexpr std::array kTargets{Target{"dataset", run_dataset},
                                       Target{"torch_file", run_torch_file},
                                       Target{"driple_dataset", run_driple_dataset},
                                       Target{"grouped_graphs", run_grouped_graphs},
                                       Target{"graph_def", run_graph_def},
                                       Target{"measurement_list", run_measurement_list},
                                       Target{"counters", run_counters},
                                       Target{"measured_jobs", run_measured_jobs},
                                       Target{"measured_series", run_measured_series}};
  return kTargets;
}

}  // namespace rehearse::fuzz
