#include "predictor/measurement_list.hpp"

#include <nlohmann/json.hpp>

#include "sim/base/json_schema.hpp"
#include "sim/scenario/scenario_readers.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kMost = 100'000;  // entries

/// `value` for the overrides of a scenario.
std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

MeasuredScenario read_where(const JsonReader& json) {
  MeasuredScenario where{.file = json.resolve(json.required<std::string>("scenario")),
                         .overrides = {},
                         .places = {},
                         .name = json.optional<std::string>("setting", ""),
                         .study = json.optional<std::string>("study", ""),
                         .split = {}};
  if (json.has("split")) where.split = read_word(json, "split", kSplits);
  for (const char* key : {"model", "batch_per_worker", "optimizer"})
    if (json.has(key)) {
      const std::string place = "/workload/";
      where.overrides.push_back(place + key + "=" + text_of(json.child(key).value()));
      where.places.push_back(json.child(key).place());
    }
  if (json.has("set"))
    for (const auto& [pointer, value] : json.child("set").items()) {
      if (!pointer.starts_with('/')) value.fail("expected a JSON pointer, such as /cluster/groups/0/count, as the key");
      where.overrides.push_back(pointer + "=" + text_of(value.value()));
      where.places.push_back(value.place());
    }
  return where;
}

double read_weight(const JsonReader& json) {
  const double weight = json.optional<double>("weight", 1);
  json.expect(weight >= 0 && weight <= 1e6, "weight", "0 to 1000000");
  return weight;
}

MeasuredRun read_measured_run(const JsonReader& json) {
  MeasuredRun run{.where = read_where(json),
                  .graph = {},
                  .family = json.optional<std::string>("family", "measured"),
                  .series = {},
                  .step_time = json.maybe<Seconds>("step_time"),
                  .weight = read_weight(json)};
  if (json.has("graph")) run.graph = json.resolve(json.required<std::string>("graph"));
  if (json.has("series")) run.series = json.resolve(json.required<std::string>("series"));
  json.expect(!run.graph || !json.has("model"), "graph", "no graph beside a model");
  json.expect(!run.step_time || *run.step_time > Seconds{}, "step_time", "a time above 0s");
  if (!run.series && !run.step_time) json.fail("expected a series, a step_time, or both");
  json.reject_unknown_keys();
  return run;
}

MeasuredJobs read_jobs(const JsonReader& json) {
  MeasuredJobs jobs{.where = read_where(json),
                    .graphs = json.resolve(json.required<std::string>("graphs")),
                    .results = json.resolve(json.required<std::string>("results")),
                    .weight = read_weight(json)};
  json.reject_unknown_keys();
  return jobs;
}

}  // namespace

MeasurementList read_measurement_list(const Json& json, const std::string& file_name) {
  const JsonReader root{json, file_name};
  root.expect(root.is_object(), "an object");
  root.begin_file(measurement_list_schema);
  MeasurementList list{.file_name = file_name, .source = root.required<std::string>("source"), .runs = {}, .jobs = {}};
  if (root.has("profiles"))
    for (const JsonReader& entry : root.children("profiles")) list.runs.push_back(read_measured_run(entry));
  if (root.has("jobs"))
    for (const JsonReader& entry : root.children("jobs")) list.jobs.push_back(read_jobs(entry));
  const std::size_t entries = list.runs.size() + list.jobs.size();
  if (entries < 1 || entries > kMost) root.fail("expected 1 to 100000 profiles and jobs");
  root.reject_unknown_keys();
  return list;
}

MeasurementList load_measurement_list(const std::filesystem::path& file) {
  return read_measurement_list(load_json_file(file), file.string());
}

std::string measurement_list_schema() {
  return file_schema({.title = "Rehearse list of measured jobs", .required = {"source"}},
                     R"json({
    "source": { "type": "string", "description": "who measured, when and how" },
    "profiles": { "type": "array", "description": "jobs with a time series of the first worker machine, a step time, or both",
      "items": { "type": "object", "required": ["scenario"], "additionalProperties": false, "properties": {
          "scenario": { "type": "string", "description": "scenario file of the cluster, relative to this file" },
          "set": { "type": "object", "description": "scenario fields to change: JSON pointer and value" },
          "setting": { "type": "string", "description": "name of the setting in the dataset; default: the scenario's" },
          "study": { "type": "string", "description": "group of settings, whose rows corrections learn from together; default: the setting's name" },
          "split": { "enum": ["train", "validation", "test"], "description": "of all jobs of this model; default: models are dealt to the three, a lone one to train" },
          "model": { "description": "instead of the scenario's: a name of the catalogs, or a model file's object" },
          "batch_per_worker": { "type": "integer", "minimum": 1, "maximum": 65536 },
          "optimizer": { "enum": ["momentum", "sgd", "adam"] },
          "graph": { "type": "string", "description": "instead of a model: TensorFlow GraphDef, text (.pbtxt) or binary" },
          "family": { "type": "string", "description": "label of the graph; default: measured" },
          "series": { "type": "string", "description": "CSV at a fixed period: time_s and any of gpu_utilization, memory_utilization (0 to 1), receive_Bps, transmit_Bps; or a trace in Chrome's format with counters of these names, or with those of simulate's timeline.json.gz" },
          "step_time": { "type": "string", "description": "mean time between a worker's steps, such as 120ms" },
          "weight": { "type": "number", "minimum": 0, "maximum": 1000000, "description": "in the loss of a training; default: 1" } } } },
    "jobs": { "type": "array", "description": "input of Driple's builder: GraphDefs named GPU_DataSet_Model_SyncAsync_HyperParameter_Job, and a CSV of their bursts",
      "items": { "type": "object", "required": ["scenario", "graphs", "results"], "additionalProperties": false, "properties": {
          "scenario": { "type": "string" },
          "set": { "type": "object" },
          "setting": { "type": "string" },
          "study": { "type": "string" },
          "split": { "enum": ["train", "validation", "test"] },
          "model": {},
          "batch_per_worker": { "type": "integer", "minimum": 1, "maximum": 65536 },
          "optimizer": { "enum": ["momentum", "sgd", "adam"] },
          "graphs": { "type": "string", "description": "folder of NAME.pbtxt and NAME.pb" },
          "results": { "type": "string", "description": "CSV: GPU, Data Set, Model, Sync/Async, Hyper-Parameter, Job Name, Resource, avg Idle time, avg Active time, avg Peak consumption" },
          "weight": { "type": "number", "minimum": 0, "maximum": 1000000 } } } }
  })json");
}

}  // namespace rehearse
