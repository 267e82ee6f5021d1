#include "sim/app/trace_inputs.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sim/app/output/document.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/recorded_model.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {

namespace {

/// Of a model of the catalog or of a file.
Workload variables_of(const std::string& name, int batch, const CommonOptions& common) {
  const Json asked = name;
  const Catalog catalog = load_catalog(common);
  const bool is_file = std::filesystem::is_regular_file(name);
  const Json imported = is_file ? import_model(std::filesystem::path{name}).model_file : Json{};
  const JsonReader json = is_file ? JsonReader{imported, name} : catalog.model(name, JsonReader{asked, "--variables"});
  return build_workload(read_model(name, json), batch, Precision::kFp32, name);
}

Accelerator read_gpu(const Catalog& catalog, const std::string& name) {
  const Json asked = name;
  return read_accelerator(name, catalog.accelerator(name, JsonReader{asked, "--gpu"}));
}

std::string what_if_text(const WorkChange& change) {
  return joined(change.factors) + (change.factors.empty() || change.gpu.empty() ? "" : ", ") + change.gpu;
}

}  // namespace

std::string in_milliseconds(Seconds time) { return formatted("%.3f ms", time.value() * 1e3); }

void add_steps(Options options, std::string& steps) {
  options
      .add_option("--steps", steps,
                  "Read these marked steps of traces alone, counted from 1: 3, or 3-5. Without it all, or some around "
                  "the one of median length if the trace is long")
      .type_name("FIRST-LAST");
}

std::optional<StepRange> read_steps(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto number = [&](std::size_t from, std::size_t to) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + to, value);
    if (error != std::errc{} || end != text.data() + to)
      throw InputError{"--steps: expected a number, or two such as 3-5; found " + in_quotes(text)};
    return value;
  };
  const std::size_t first = number(0, dash);
  return StepRange{first, dash < text.size() ? number(dash + 1, text.size()) : first};
}

void add_work_change(Options options, WorkChange& change) {
  options.add_repeatable(
      "--scale", change.factors, "WORK=X",
      "What if: times of this work are X times as long. WORK: host, kernels (all but collectives), or a "
      "class of kernels such as convolution or collective; repeatable");
  options
      .add_option("--gpu", change.gpu,
                  "What if: the kernels run on this GPU of the catalog, each class as much faster as the memory or the "
                  "arithmetic that bounds it. OLD=NEW if the catalog has another name for the recorded one")
      .type_name("NAME");
}

std::pair<std::string, std::string> split_setting(const std::string& option, const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError{option + ": expected NAME=VALUE; found " + in_quotes(text)};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

ChangedWork read_work_change(const WorkChange& change, const RecordedJob& job, const Catalog& catalog) {
  const std::string& recorded = job.ranks.front().gpu;
  ChangedWork changed{.change = {}, .gpu = catalog_name(recorded, catalog.accelerator_names()), .remarks = {}};
  for (const std::string& text : change.factors) {
    const auto [work, value] = split_setting("--scale", text);
    char* end = nullptr;
    const double factor = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(factor >= 0 && factor <= 1e6))
      throw InputError{"--scale: " + work + ": expected a factor from 0 to 1000000; found " + in_quotes(value)};
    scale(changed.change, work, factor);
  }
  if (change.gpu.empty()) return changed;
  const std::size_t equals = change.gpu.find('=');
  const std::string from = equals == std::string::npos ? changed.gpu : change.gpu.substr(0, equals);
  if (from.empty())
    throw InputError{job.ranks.front().file_name + ": --gpu: the catalog does not know " +
                     (recorded.empty() ? "the GPU, which is not named" : in_quotes(recorded)) + ": name it, OLD=NEW"};
  const bool is_other =
      !changed.gpu.empty() && catalog_name(recorded, {from}).empty() && catalog_name(from, {changed.gpu}).empty();
  if (is_other)
    throw InputError{"--gpu " + in_quotes(change.gpu) + ": " + job.ranks.front().file_name + " was recorded on " +
                     in_quotes(recorded) + ", which is " + changed.gpu + " in the catalog, not " + from};
  changed.gpu = equals == std::string::npos ? change.gpu : change.gpu.substr(equals + 1);
  const Accelerator old_gpu = read_gpu(catalog, from), new_gpu = read_gpu(catalog, changed.gpu);
  changed.remarks = move_to_gpu(changed.change, job, old_gpu, new_gpu);
  changed.unscaled = unscaled_share(job, &old_gpu, &new_gpu);
  return changed;
}

std::vector<std::string> idle_factors(const WorkChange& change, const ReplayReport& report) {
  std::vector<std::string> remarks;
  for (const std::string& text : change.factors) {
    const std::string work = split_setting("--scale", text).first;
    const bool is_class = work != "host" && work != "kernels";
    if (is_class &&
        std::ranges::none_of(report.classes, [&](const ReplayedClass& c) { return to_text(c.kernel) == work; }))
      remarks.push_back("--scale " + text + " changes nothing: no work of class " + in_quotes(work) + " was recorded");
  }
  return remarks;
}

void add_trace_import(Options options, TraceImport& import) {
  options.add_option("--batch", import.batch, "Of a trace: samples of a worker and step, which it does not say")
      .range(1, 65536)
      .type_name("N");
  options.add_flag("--scales-with-batch", import.scales_with_batch,
                   "Of a trace: with another batch times are in proportion; otherwise it is refused");
  options
      .add_option("--variables", import.variables,
                  "Of a trace without shapes: the model, of the catalog or a file, whose gradients were recorded")
      .type_name("MODEL");
  add_steps(options, import.steps);
  add_work_change(options, import.change);
  options.add_flag("--force", import.is_forced, "Import also a trace that is not replayed well");
}

ImportedModel import_traces(const std::vector<std::filesystem::path>& files, const TraceImport& import,
                            const CommonOptions& common) {
  const RecordedJob job = recorded_job(read_recorded_runs(files, common.budget, {.steps = read_steps(import.steps)}));
  if (import.batch == 0)
    throw InputError{files[0].string() + ": a trace does not say how many samples a step has: --batch N"};
  RecordedModelRequest request{.batch = import.batch, .scales_with_batch = import.scales_with_batch, .variables = {}};
  if (!import.variables.empty()) request.variables = variables_of(import.variables, import.batch, common);
  common.budget.check();
  ReplayReport report = replay_report(job, replay(job));
  if (const std::string refusal = report.refusal(); !refusal.empty() && !import.is_forced)
    throw InputError{files[0].string() + ": " + refusal + "; --force imports it all the same"};
  common.budget.check();
  ChangedWork changed = read_work_change(import.change, job, load_catalog(common));
  request.change = std::move(changed.change);
  request.gpu = changed.gpu;
  report.unscaled = changed.unscaled.value_or(report.unscaled);
  RecordedModel model = recorded_model(job, request);
  std::vector<std::string> remarks = job.remarks;
  for (const std::string& remark : job.ranks.front().remarks) remarks.push_back(remark);
  remarks.insert(remarks.end(), model.remarks.begin(), model.remarks.end());
  remarks.insert(remarks.end(), changed.remarks.begin(), changed.remarks.end());
  for (std::string& remark : idle_factors(import.change, report)) remarks.push_back(std::move(remark));
  if (const std::string warning = report.unscaled_warning(); !warning.empty() && !import.change.is_empty())
    remarks.push_back("the trace is " + warning);
  remarks.push_back(model.step + " took " + in_milliseconds(model.measured) + "; the model takes " +
                    in_milliseconds(model.compute) + ", without the exchange of gradients");
  const std::string gpu = job.ranks.front().gpu;
  const std::string what_if = import.change.is_empty() ? "" : "; what if: " + what_if_text(import.change);
  return {.model_file = {{"format", 1},
                         {"source", "Trace " + shortened(files[0].filename().string(), 200) + ", " +
                                        shortened(model.step, 100) +
                                        (gpu.empty() ? "" : ", on " + shortened(gpu, 100)) + shortened(what_if, 200)},
                         {"structure", timed_layers_json(model.layers)}},
          .remarks = std::move(remarks)};
}

}  // namespace rehearse
