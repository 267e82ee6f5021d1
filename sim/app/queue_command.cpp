// rehearse queue: several jobs on one cluster, under one policy or several.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/app/executor.hpp"
#include "sim/app/output/queue_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/queue/placement_speed.hpp"
#include "sim/queue/queue_energy.hpp"
#include "sim/queue/queue_file.hpp"
#include "sim/queue/queue_result.hpp"
#include "sim/queue/run_queue.hpp"

namespace rehearse {

namespace {

struct QueueCommand {
  CommonOptions common;
  std::filesystem::path file;
  std::vector<std::string> overrides;
  std::vector<std::string> policies;
};

void add_options(Options options, QueueCommand& command) {
  options.add_option("FILE", command.file, "File of a queue (rehearse schema queue)").required();
  add_overrides(options, command.overrides, "Override a field: /json/pointer=value; repeatable");
  std::string names;
  for (const std::string& name : policy_names()) names += (names.empty() ? "" : ", ") + name;
  options.add_option("--policy", command.policies, "NAME[,NAME...]", "Policies instead of the file's: " + names)
      .delimiter(',');
  add_work_options(options, command.common, "Print summary.json instead of a table",
                   "Write report.html, timeline.json.gz, summary.json, jobs.csv, spans.csv and load.csv here, and keep "
                   "results.sqlite (default: write nothing)");
}

QueueInput load_queue(const QueueCommand& command, const Catalog& catalog) {
  Json json = load_json_file(command.file);
  JsonOrigins origins;
  override_fields(json, command.overrides, origins);
  if (!command.policies.empty()) origins.set(json, "/policy", Json(command.policies).dump(), "--policy");
  return read_queue(json, command.file.string(), catalog, &origins);
}

/// Everything that the result of a policy depends on.
std::string content_of(const QueueSetup& setup, const std::vector<std::vector<double>>& speeds) {
  Json jobs = Json::array(), kinds = Json::array(), groups = Json::array();
  for (const QueuedJob& job : setup.jobs) jobs.push_back({job.kind, job.arrival, job.steps, job.weight});
  for (const JobKind& kind : setup.kinds)
    kinds.push_back({kind.type, kind.scenario.empty() ? "" : read_file(kind.scenario, std::size_t{1} << 30U), kind.gpus,
                     kind.max_gpus, kind.noise_in_batches});
  for (const QueueGroup& group : setup.groups)
    groups.push_back({group.gpu, group.instance, group.machines, group.gpus_per_machine, group.nics});
  return Json{{"jobs", std::move(jobs)},
              {"kinds", std::move(kinds)},
              {"groups", std::move(groups)},
              {"round", setup.round ? Json(*setup.round) : Json{}},
              {"times", {setup.restart, setup.reallocation, setup.service_threshold}},
              {"placing", setup.placing == Placing::kPacked},
              {"interference", setup.interference ? Json(*setup.interference) : Json{}},
              {"seed", setup.seed},
              {"speeds", speeds},
              {"table", setup.speeds.empty() ? "" : read_file(setup.speeds, std::size_t{1} << 30U)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Runs the policies that `store` does not have.
std::vector<QueueRun> run_policies(const QueueSetup& setup, PlacementSpeeds& speeds, ResultStore& store,
                                   const CommonOptions& common) {
  const std::string content = content_of(setup, packed_speeds(setup, speeds));
  std::vector<QueueRun> runs;
  for (const std::string& policy : setup.policies) {
    const RunKey key = run_key(content + policy, program_identity());
    if (const auto kept = store.find(key); kept && !kept->summary.empty()) {
      runs.push_back(read_queue_run(kept->summary));
      continue;
    }
    Progress progress{"jobs of " + policy, common.is_quiet};
    runs.push_back(run_queue(setup, policy, speeds, common.budget, progress.counter()));
    store.put(key, {.name = setup.name,
                    .parameters = Json{{"policy", policy}}.dump(),
                    .summary = to_text(runs.back()),
                    .error = "",
                    .has_died = false,
                    .wall_s = progress.elapsed().count()});
  }
  return runs;
}

/// Of all policies or of none. That it is not known is told to those who ask for it.
void add_energy(QueueSetup& setup, JobSpeeds& speeds, std::vector<QueueRun>& runs) {
  for (QueueRun& run : runs) {
    auto energy = energy_of(setup, run, speeds);
    if (auto* const known = std::get_if<QueueEnergy>(&energy)) {
      run.energy = std::move(*known);
      continue;
    }
    for (QueueRun& other : runs) other.energy.reset();
    const bool is_asked =
        setup.electricity != Electricity{} ||
        std::ranges::any_of(setup.kinds, [](const JobKind& kind) { return kind.gpu_power_w.has_value(); });
    if (is_asked)
      setup.warnings.push_back("the energy is not known: nobody says " + std::get<std::string>(energy) +
                               " (\"gpu_power\" of a job, \"instance\" of a group)");
    return;
  }
}

void add_link_warnings(QueueSetup& setup, const std::vector<QueueRun>& runs) {
  for (const QueueRun& run : runs)
    if (run.unknown_gpu_time > 0)
      setup.warnings.push_back(
          run.policy + ": for " + display(hours(run.unknown_gpu_time)) +
          " GPU hours jobs on several machines shared NICs with another such job, and nobody says what one of them "
          "sends; they neither lose speed by that nor take any, unless \"interference\" says what they lose");
}

void add_table_warning(QueueSetup& setup, const std::optional<SpeedTable>& speeds, const std::vector<QueueRun>& runs) {
  std::set<std::string> unstated;
  for (const QueueRun& run : runs)
    for (const JobSpan& span : run.spans) {
      const JobKind& kind = setup.kinds[setup.jobs[span.job].kind];
      const auto machines = static_cast<int>(span.placement.parts.size());
      const int gpus = span.placement.gpus();
      if (!kind.type.empty() && !speeds->states(kind.type, setup.groups[span.placement.group].gpu, gpus, machines))
        unstated.insert(kind.type + " on " + std::to_string(gpus) + " GPUs of " + std::to_string(machines) +
                        " machines");
    }
  if (unstated.empty()) return;
  constexpr std::size_t kMostNamed = 4;
  const std::size_t named = std::min(unstated.size(), kMostNamed), others = unstated.size() - named;
  const std::vector<std::string> first(unstated.begin(),
                                       std::next(unstated.begin(), static_cast<std::ptrdiff_t>(named)));
  setup.warnings.push_back(setup.speeds + " has no row for " + joined(first) +
                           (others == 0 ? "" : ", nor for " + std::to_string(others) + " others") +
                           "; that of the nearest number of machines is taken");
}

Answer run(const QueueCommand& command) {
  const Catalog catalog = load_catalog(command.common);
  QueueInput input = load_queue(command, catalog);
  QueueSetup& setup = input.setup;
  const auto made = make_folder(command.common.output);
  ResultStore store =
      command.common.output ? ResultStore::open(*command.common.output / "results.sqlite") : ResultStore::temporary();
  const Pool pool = pool_of(command.common);
  PlacementSpeeds speeds{setup, input.speeds, catalog, pool, store, program_identity(), command.common.budget};
  {
    Progress progress{"simulations of jobs", command.common.is_quiet};
    speeds.prepare(progress.counter());
  }
  std::vector<QueueRun> runs = run_policies(setup, speeds, store, command.common);
  add_energy(setup, speeds, runs);
  const std::vector<std::string> of_speeds = speeds.warnings();
  setup.warnings.insert(setup.warnings.end(), of_speeds.begin(), of_speeds.end());
  add_table_warning(setup, input.speeds, runs);
  add_link_warnings(setup, runs);
  Json summary{{"format", 1}, {"name", setup.name}, {"jobs", setup.jobs.size()}, {"gpus", setup.gpus()}};
  summary["policies"] = Json::array();
  for (const QueueRun& run : runs) summary["policies"].push_back(to_json(setup, run));
  summary["warnings"] = setup.warnings;
  print_warnings(setup.warnings, command.common.is_quiet);
  if (command.common.output) {
    OutputFolder folder{*command.common.output};
    folder.write("summary.json", to_json_text(summary));
    folder.write("jobs.csv", queue_jobs_csv(setup, runs));
    folder.write("spans.csv", queue_spans_csv(setup, runs));
    folder.write("load.csv", queue_load_csv(setup, runs));
    folder.write("timeline.json.gz", gzip(queue_timeline(setup, runs)));
    folder.write("report.html", render_html(queue_document(setup, runs)));
    folder.commit();
    say_written(command.common, *command.common.output, folder.names());
  }
  Answer answer{.json = to_json_text(summary)};
  answer.table(queue_table(setup, runs));
  answer.line(std::to_string(setup.jobs.size()) + " jobs, " + std::to_string(setup.gpus()) + " GPUs");
  return answer;
}

}  // namespace

CommandVerb queue_verb() {
  return make_verb<QueueCommand>(
      "queue",
      "Several jobs on one cluster: who runs when, when each is done, how busy the GPUs are\n\n"
      "Policies that have run are kept in DIR/results.sqlite, and the same command goes on from there.\n"
      "Example: rehearse queue scenarios/queue/two-teams.json --policy fifo,srtf -o results/queue",
      add_options, run);
}

}  // namespace rehearse
