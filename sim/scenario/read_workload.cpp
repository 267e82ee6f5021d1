#include <nlohmann/json.hpp>

#include "sim/scenario/scenario_readers.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse {

namespace {

/// The file that `name` is instead of a model of a catalog, whose names have no ending: beside the scenario or, as an
/// option names it, from here on. None if there is no such file.
std::optional<std::filesystem::path> file_of(const std::string& name, const JsonReader& by) {
  std::error_code error;
  for (const std::filesystem::path& path : {by.resolve(name), std::filesystem::path{name}})
    if (path.has_extension() && std::filesystem::is_regular_file(path, error)) return path;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> read_workload(const JsonReader& json, const Catalog& catalog, Scenario& scenario,
                                          Json& effective) {
  json.expect(json.is_object(), "an object");
  std::string name;
  Json imported;
  std::filesystem::path file;
  const JsonReader model =
      resolve(json, "model", effective["model"], name, [&](const std::string& n, const JsonReader& by) {
        const auto found = file_of(n, by);
        if (!found) return catalog.model(n, by);
        file = *found;
        imported = import_model(file).model_file;
        return JsonReader{imported, file.string()};
      });
  if (!file.empty()) effective["model"]["name"] = name = file.stem().string();
  scenario.model = read_model(name, model);
  scenario.batch = json.required<int>("batch_per_worker");
  json.expect(scenario.batch >= 1 && scenario.batch <= kMaxBatch, "batch_per_worker", "1 to 65536 samples");
  const auto word = [&](const char* key, const auto& words) {
    if (json.has(key)) return read_word(json, key, words);
    effective[key] = words.front().name;
    return words.front().value;
  };
  scenario.optimizer = word("optimizer", kOptimizers);
  scenario.precision = word("precision", kPrecisions);
  scenario.framework = json.optional<std::string>("framework", "");
  if (json.has("copies_input")) scenario.copies_input = json.required<bool>("copies_input");
  std::optional<std::int64_t> samples_per_epoch;
  if (json.has("samples_per_epoch")) {
    samples_per_epoch = json.required<std::int64_t>("samples_per_epoch");
    json.expect(*samples_per_epoch >= 1 && *samples_per_epoch <= kMaxSamples, "samples_per_epoch",
                "1 to 1000000000000000 samples");
  }
  if (json.has("convergence")) scenario.convergence = read_convergence(json.child("convergence"));
  json.reject_unknown_keys();
  scenario.workload =
      build_workload(scenario.model, scenario.batch, scenario.precision,
                     model.file_name() + ": " + (model.pointer().empty() ? "/structure" : model.pointer()));
  return samples_per_epoch;
}

}  // namespace rehearse
