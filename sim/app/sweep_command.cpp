// rehearse sweep: every combination of a grid, kept in DIR/results.sqlite as it finishes.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "sim/app/estimate.hpp"
#include "sim/app/executor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/output/sweep_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/plan/sweep.hpp"
#include "sim/pool/result_store.hpp"
#include "sim/record/cost.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

struct SweepCommand {
  CommonOptions common;
  std::filesystem::path file;            // scenario or sweep file
  std::vector<std::string> grids;        // "/pointer=a,b,1..8"
  std::vector<std::string> lists;        // "/pointer=a;/other=b"
  std::vector<std::string> overrides;    // "/pointer=value"
  std::vector<std::string> constraints;  // expressions
  std::optional<int> seeds;
  std::optional<std::size_t> runs;
  std::string max_run_time;  // of each simulation, as typed
  std::string where;         // expression; empty: every row
  std::optional<int> top;
  std::string by;        // expression; empty: rows keep their order, or --top's default
  std::string relative;  // expression; empty: no such column
  bool is_dry_run = false;
};

void add_options(Options options, SweepCommand& command) {
  options.add_option("SCENARIO", command.file, "Scenario file, or sweep file (rehearse schema sweep)").required();
  options.add_repeatable("--grid", command.grids, "POINTER=VALUES",
                         "A place, such as /workload/batch_per_worker or workers.count of the group workers, and its "
                         "values; repeatable, the last one varies fastest");
  options.add_repeatable("--list", command.lists, "SETTINGS",
                         "Places to set together, \"/a=1;/b=2\"; repeatable: once for each choice");
  add_overrides(options, command.overrides, "Set a field in every combination; repeatable");
  options.add_repeatable("--constraint", command.constraints, "CONDITION",
                         "Leave out combinations that break this condition on JSON pointers; repeatable");
  options.add_count("--seeds", command.seeds, 1, 1'000'000,
                    "Run each with the scenario's seed and the next ones, N in all");
  options.add_count("--runs", command.runs, 1, 1'000'000,
                    "Simulate each N times, as simulate --runs does: rows have its medians, and goodput");
  options.add_option("--where", command.where, "CONDITION",
                     "Print only rows that fulfil this condition; sweep.csv has all");
  options.add_count("--top", command.top, 1, 1'000'000, "Print only the N rows with the largest --by");
  options.add_option(
      "--by", command.by, "FORMULA",
      "The rows with the largest come first: a key or formula; -x puts the smallest x first (default with "
      "--top: steps_per_s; with --runs: goodput)");
  add_max_run_time(options, command.max_run_time, ": a row with that error, tried again when the sweep is");
  options.add_option("--relative", command.relative, "FORMULA",
                     "Print also this key or formula over its smallest value among the rows that are printed");
  options.add_flag("--dry-run", command.is_dry_run, "Check every combination; print how many, and how long they take");
  add_work_options(options, command.common, "Print the rows as JSON instead of a table",
                   "Keep results.sqlite and write sweep.csv and sweep.html here (default: write nothing)");
}

constexpr std::size_t kMostRowsBesideFile = 20;  // on stdout, if sweep.csv has all of them

/// The keys of a summary that the table on stdout shows, if there.
constexpr const char* kShownKeys[] = {
    "steps_per_s",     "steps_per_s_low",    "steps_per_s_high", "iteration_time_s", "time_s",  "time_s_p5",
    "time_s_p95",      "cost_usd",           "cost_usd_p5",      "cost_usd_p95",     "goodput", "young_daly_interval_s",
    "gpu_utilization", "bottleneck_resource"};

SweepRequest make_request(const SweepCommand& command) {
  SweepRequest request = load_sweep_request(command.file);
  const Json scenario = load_json_file(request.scenario);
  for (const std::string& text : command.overrides) request.set.push_back(read_set_option(text, scenario));
  for (const std::string& text : command.grids) add_axis(request, read_grid_option(text, scenario));
  if (!command.lists.empty()) add_axis(request, read_list_options(command.lists, scenario));
  for (const std::string& text : command.constraints) request.constraints.emplace_back("--constraint", text);
  if (command.seeds) {
    request.seeds = command.seeds;
    request.seeds_origin = "--seeds";
  }
  request.runs = command.runs;
  if (request.axes.empty() && !request.seeds)
    throw InputError{command.file.string() +
                     ": expected something to vary: --grid, --list or --seeds, or a sweep file with one of them"};
  return request;
}

/// Headings of the parameters: "workers/count" for /cluster/groups/1/count, the last key for others, the whole pointer
/// where that is not unique.
std::vector<std::string> headings(const std::vector<std::string>& pointers, const Json& scenario) {
  std::vector<std::string> names;
  for (const std::string& pointer : pointers) {
    constexpr std::string_view kGroups = "/cluster/groups/";
    std::string name = pointer.substr(pointer.rfind('/') + 1);
    if (const std::size_t slash = pointer.find('/', kGroups.size());
        pointer.starts_with(kGroups) && slash != std::string::npos)
      name = parameter_text(json_pointer_find(scenario, pointer.substr(0, slash) + "/name")) + pointer.substr(slash);
    names.push_back(name);
  }
  std::vector<std::string> unique;
  for (std::size_t i = 0; i < names.size(); ++i)
    unique.push_back(std::count(names.begin(), names.end(), names[i]) > 1 ? pointers[i] : names[i]);
  return unique;
}

/// A row of the table on stdout, or of --json.
struct ShownRow {
  std::size_t combination = 0;
  double rank = 0;                                // value of --by
  std::optional<double> compared;                 // value of --relative
  std::map<std::string, std::string> parameters;  // by pointer
  Json json;
};

struct Selection {
  std::vector<ShownRow> rows;
  std::size_t finished = 0, failed = 0, fulfilling = 0, with_warnings = 0;
  std::size_t unranked = 0, undecided = 0;  // whose results leave out what --by, or --where, asks for
  std::vector<std::string> headings;
};

constexpr double kNoRank = -std::numeric_limits<double>::infinity();  // of a row without a result

bool is_ranked(const SweepCommand& command) { return command.top || !command.by.empty(); }

/// Of the options, parsed; those that are not given are none.
struct Formulas {
  std::optional<Expression> where, relative;
  Expression by;
};

/// Divides what --relative compares by the smallest of it.
void make_relative(Selection& selection) {
  std::optional<double> smallest;
  for (const ShownRow& row : selection.rows)
    if (row.compared) smallest = std::min(smallest.value_or(*row.compared), *row.compared);
  for (ShownRow& row : selection.rows) {
    if (row.compared) row.compared = *smallest > 0 ? std::optional{*row.compared / *smallest} : std::nullopt;
    row.json["relative"] = row.compared ? Json(*row.compared) : Json{};
  }
}

/// The rows that fulfil --where, at most --top of them, best first. Rows without result come only if neither is given.
Selection select(const Sweep& sweep, const ResultStore& store, const SweepCommand& command, const Formulas& formulas) {
  Selection selection;
  sweep.for_each_row(store, [&](const SweepRow& row) {
    if (!row.is_finished) return;
    if (selection.headings.empty()) selection.headings = headings(sweep.parameters(), row.scenario);
    ++selection.finished;
    const bool has_result = row.summary.is_object();
    if (!has_result) ++selection.failed;
    if (has_result && row.summary.contains("warnings") && !row.summary["warnings"].empty()) ++selection.with_warnings;
    const auto look_up = [&](const std::string& name) { return sweep.look_up(row, name); };
    if ((formulas.where || command.top) && !has_result) return;
    if (formulas.where && !formulas.where->holds(look_up)) {
      if (formulas.where->evaluate(look_up).index() == 0) ++selection.undecided;
      return;
    }
    ++selection.fulfilling;
    ShownRow shown{.combination = row.combination};
    if (is_ranked(command)) shown.rank = has_result ? formulas.by.number(look_up) : kNoRank;
    if (std::isnan(shown.rank)) {
      ++selection.unranked;
      return;
    }
    if (formulas.relative && has_result) shown.compared = formulas.relative->number(look_up);
    if (shown.compared && std::isnan(*shown.compared)) shown.compared.reset();
    Json parameters = Json::object();
    for (const std::string& pointer : sweep.parameters()) {
      const Json* value = json_pointer_find(row.scenario, pointer);
      shown.parameters[pointer] = parameter_text(value);
      parameters[pointer] = value ? *value : Json{};
    }
    Json summary;
    for (auto& [key, value] : plain_values(row.summary)) summary[key] = std::move(value);
    shown.json = Json{{"parameters", std::move(parameters)},
                      {"seed", row.seed},
                      {"summary", std::move(summary)},
                      {"error", row.error.empty() ? Json{} : Json(row.error)}};
    selection.rows.push_back(std::move(shown));
    const auto most = static_cast<std::size_t>(command.top.value_or(0));
    if (!command.top || selection.rows.size() < 2 * most + 1000) return;
    std::stable_sort(selection.rows.begin(), selection.rows.end(),
                     [](const ShownRow& a, const ShownRow& b) { return a.rank > b.rank; });
    selection.rows.resize(most);
  });
  if (is_ranked(command))
    std::stable_sort(selection.rows.begin(), selection.rows.end(),
                     [](const ShownRow& a, const ShownRow& b) { return a.rank > b.rank; });
  if (command.top) selection.rows.resize(std::min(selection.rows.size(), static_cast<std::size_t>(*command.top)));
  if (formulas.relative) make_relative(selection);
  return selection;
}

std::string cell(const Json& value) {
  return value.is_number_float() ? display(value.get<double>()) : shortened(parameter_text(&value), 200);
}

Table table_of(const Sweep& sweep, const Selection& selection, const SweepCommand& command, const Expression& by,
               std::size_t most) {
  Table table{.header = selection.headings, .rows = {}};
  std::set<std::uint64_t> seeds;
  bool has_errors = false;
  for (const ShownRow& row : selection.rows) {
    seeds.insert(row.json["seed"].get<std::uint64_t>());
    has_errors |= row.json["error"].is_string();
  }
  std::vector<std::string> keys;
  for (const char* key : kShownKeys)
    if (std::any_of(selection.rows.begin(), selection.rows.end(), [&](const ShownRow& row) {
          const Json& summary = row.json["summary"];
          return summary.is_object() && summary.contains(key) && !summary[key].is_null();
        }))
      keys.emplace_back(key);
  const bool shows_rank = is_ranked(command) && std::find(keys.begin(), keys.end(), by.text()) == keys.end();
  if (seeds.size() > 1) table.header.emplace_back("seed");
  if (shows_rank) table.header.push_back(by.text());
  table.header.insert(table.header.end(), keys.begin(), keys.end());
  if (!command.relative.empty()) table.header.push_back(command.relative + " / smallest");
  if (has_errors) table.header.emplace_back("error");
  for (const ShownRow& row : selection.rows) {
    if (table.rows.size() == most) break;
    std::vector<std::string> cells;
    for (const std::string& pointer : sweep.parameters()) cells.push_back(shortened(row.parameters.at(pointer), 40));
    if (seeds.size() > 1) cells.push_back(row.json["seed"].dump());
    if (shows_rank) cells.push_back(row.rank == kNoRank ? "-" : display(row.rank));
    for (const std::string& key : keys)
      cells.push_back(row.json["summary"].is_object() ? cell(row.json["summary"].value(key, Json{})) : "-");
    if (!command.relative.empty()) cells.push_back(row.compared ? display(*row.compared) : "-");
    if (has_errors) cells.push_back(shortened(cell(row.json["error"]), 120));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// What the page shows of the rows that are printed, whose table has a name.
SweepResults results_of(const Sweep& sweep, const Selection& selection, const SweepCommand& command,
                        const Expression& by, const std::string& csv) {
  constexpr std::size_t kMostRows = 1000;
  SweepResults results{.title = "Sweep of " + command.file.filename().string(),
                       .parameters = selection.headings,
                       .points = {},
                       .without_result = selection.failed,
                       .table = table_of(sweep, selection, command, by, kMostRows)};
  results.table.csv = csv;
  const auto number = [](const Json& summary, const char* key) {
    return summary.contains(key) && summary[key].is_number() ? std::optional{summary[key].get<double>()} : std::nullopt;
  };
  results.is_of_target = std::ranges::any_of(selection.rows, [](const ShownRow& row) {
    return row.json["summary"].is_object() && row.json["summary"].contains("training_time_s");
  });
  for (const ShownRow& row : selection.rows) {
    const Json& summary = row.json["summary"];
    const auto speed = summary.is_object() ? number(summary, "samples_per_s") : std::nullopt;
    if (!speed) continue;
    SweepPoint point{.parameters = {}, .samples_per_s = *speed};
    for (const std::string& pointer : sweep.parameters()) {
      const Json& value = row.json["parameters"][pointer];
      if (value.is_number())
        point.parameters.emplace_back(value.get<double>());
      else
        point.parameters.emplace_back(shortened(row.parameters.at(pointer), 60));
    }
    constexpr double kSamples = 1e6;
    point.time_s = results.is_of_target ? number(summary, "training_time_s").value_or(0) : kSamples / *speed;
    point.cost_usd = number(summary, results.is_of_target ? "training_cost_usd" : "usd_per_million_samples");
    results.points.push_back(std::move(point));
  }
  return results;
}

std::string totals_text(const Selection& selection, const SweepCheck& check, const SweepCommand& command) {
  std::string text = std::to_string(check.combinations) + " combinations";
  const auto add = [&](std::size_t count, const char* before, const std::string& what) {
    if (count > 0) text += before + std::to_string(count) + what;
  };
  add(check.left_out, ", ", " left out by constraints");
  add(selection.failed, ", ", " without result");
  if (!command.where.empty()) text += ", " + std::to_string(selection.fulfilling) + " fulfil " + command.where;
  add(selection.undecided, "; ", " do not have what that asks for");
  add(selection.unranked, "; ", " without " + command.by + ", not shown");
  add(selection.with_warnings, "; ", " carry warnings, which simulate prints");
  return text;
}

Answer dry_run(const Sweep& sweep, const SweepCheck& check, const SweepCommand& command, double seconds) {
  std::size_t pending = check.distinct;
  if (command.common.output)
    pending = sweep.pending(ResultStore::open_to_read(*command.common.output / "results.sqlite"));
  Answer answer;
  answer.line(
      formatted("%zu combinations, %zu left out by constraints, %zu refused, %zu simulations, %zu of them finished",
                check.combinations, check.left_out, check.failed, check.distinct, check.distinct - pending));
  const double share = check.distinct > 0 ? static_cast<double>(pending) / static_cast<double>(check.distinct) : 0;
  const double rest = seconds * share / command.common.parallel;
  answer.line("the rest takes about " + duration_text(rest) + " with " + std::to_string(command.common.parallel) +
              " at a time");
  answer.json = to_json_text({{"combinations", check.combinations},
                              {"left_out", check.left_out},
                              {"refused", check.failed},
                              {"simulations", check.distinct},
                              {"finished", check.distinct - pending},
                              {"simulation_time_s", rest}});
  return answer;
}

[[noreturn]] void end_incomplete(const Sweep& sweep, const ResultStore& store, const SweepCheck& check,
                                 const SweepCommand& command) {
  const std::string finished =
      std::to_string(check.distinct - sweep.pending(store)) + " of " + std::to_string(check.distinct) + " simulations ";
  end_early(command.common.budget, command.common.output ? finished + "are kept in " +
                                                               (*command.common.output / "results.sqlite").string() +
                                                               "; the same command goes on there"
                                                         : finished + "had finished; -o DIR would have kept them");
}

/// Writes the table to the place that a sweep of the same combinations has had in `folder`, or else to the first one
/// that is free: sweep.csv, sweep-2.csv, ... The list .rehearse-sweeps says which sweep a table is of. Returns its
/// name.
std::string write_table(const fs::path& folder, const Sweep& sweep, const ResultStore& store) {
  constexpr const char* kList = ".rehearse-sweeps";  // lines of a hash and a name
  std::string own;
  sweep.for_each_row(store, [&](const SweepRow& row) { own = run_key(row.scenario.dump(), own).text(); });
  std::error_code error;
  std::string list = fs::is_regular_file(folder / kList, error) ? read_file(folder / kList, kMiB) : std::string{};
  std::istringstream lines{list};
  for (std::string hash, name; lines >> hash >> name;)
    if (hash == own && fs::path{name}.filename() == name) {
      write_file(folder / name, sweep.csv(store));
      return name;
    }
  std::string name = "sweep.csv";
  for (int i = 2; fs::exists(folder / name, error); ++i) name = "sweep-" + std::to_string(i) + ".csv";
  write_files({{folder / name, sweep.csv(store)}, {folder / kList, list + own + " " + name + "\n"}});
  return name;
}

void warn_about_sources(const Sweep& sweep, const ResultStore& store) {
  std::set<std::string> sources;
  double low = 1, high = 1;
  sweep.for_each_row(store, [&](const SweepRow& row) {
    if (!row.error.empty() || !row.summary.is_object() || !row.summary.contains("step_source")) return;
    sources.insert(row.summary["step_source"].get<std::string>());
    if (!row.summary["steps_per_s_low"].is_number()) return;
    const double speed = row.summary["steps_per_s"].get<double>();
    low = std::min(low, row.summary["steps_per_s_low"].get<double>() / speed);
    high = std::max(high, row.summary["steps_per_s_high"].get<double>() / speed);
  });
  if (const std::string warning = source_warning(sources, low, high); !warning.empty()) print_warning(warning);
}

/// Rows are compared by what they cost, which is the same for all where it is mostly a provider's least time.
void warn_about_billing(const Selection& selection) {
  const auto rounded = std::ranges::count_if(selection.rows, [](const ShownRow& row) {
    const Json& summary = row.json["summary"];
    const auto usd = [&](const char* key) {
      const Json* value = summary.is_object() && summary.contains(key) ? &summary[key] : nullptr;
      return value != nullptr && value->is_number() ? value->get<double>() : 0;
    };
    return Cost{.usd = usd("cost_usd"), .usd_by_the_moment = usd("cost_usd_by_the_moment")}.is_mostly_rounding();
  });
  if (rounded > 0)
    print_warning("cost_usd of " + std::to_string(rounded) + " of " + std::to_string(selection.rows.size()) +
                  " rows is mostly for time that is billed beyond the run: compare by cost_usd_by_the_moment or "
                  "usd_per_million_samples");
}

Answer run(const SweepCommand& command) {
  const auto max_run_time = read_max_run_time(command.max_run_time);
  const Expression by = about("--by", [&] {
    return Expression::parse(!command.by.empty() ? command.by : command.runs ? "goodput" : "steps_per_s");
  });
  const auto parsed = [](const char* option, const std::string& text) {
    return text.empty() ? std::optional<Expression>{}
                        : about(option, [&] { return std::optional{Expression::parse(text)}; });
  };
  const auto where = parsed("--where", command.where), relative = parsed("--relative", command.relative);
  const Catalog catalog = load_catalog(command.common);
  Sweep sweep{make_request(command), catalog, program_identity()};
  const auto made = command.is_dry_run ? std::nullopt : make_folder(command.common.output);
  if (made) require_complete(*command.common.output);

  Progress checking{"combinations checked", command.common.is_quiet};
  double seconds = 0;
  const SweepCheck check = sweep.check([&](std::size_t done, const Scenario* scenario) {
    command.common.budget.check();
    if (scenario && command.is_dry_run) seconds += expected_run(*scenario).duration.value();
    checking.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(sweep.combinations()));
  });
  if (where) about("--where", [&] { sweep.check_expression(*where, true); });
  about("--by", [&] { sweep.check_expression(by, false); });
  if (relative) about("--relative", [&] { sweep.check_expression(*relative, false); });
  if (command.is_dry_run) return dry_run(sweep, check, command, seconds);

  ResultStore store =
      command.common.output ? ResultStore::open(*command.common.output / "results.sqlite") : ResultStore::temporary();
  const std::size_t pending = sweep.pending(store);
  if (store.damaged() > 0)
    print_warning(std::to_string(store.damaged()) + " rows of " + (*command.common.output / "results.sqlite").string() +
                  " are damaged: their simulations run again");
  if (pending < check.distinct && !command.common.is_quiet)
    say(std::to_string(check.distinct - pending) + " of " + std::to_string(check.distinct) +
        " simulations had finished before");
  Progress progress{"simulations", command.common.is_quiet};
  const bool is_complete =
      sweep.run(store, pool_of(command.common), progress.counter(),
                {.is_stopped = command.common.budget.asked(),
                 .job_wall_s = max_run_time ? std::optional{max_run_time->value()} : std::nullopt});
  if (!is_complete && command.common.output) end_incomplete(sweep, store, check, command);

  const Selection selection = select(sweep, store, command, {where, relative, by});
  if (!command.common.is_quiet) {
    warn_about_sources(sweep, store);
    warn_about_billing(selection);
  }
  Json rows = Json::array();
  for (const ShownRow& row : selection.rows) rows.push_back(row.json);
  Answer answer{.json = to_json_text(Json{{"format", 1},
                                          {"combinations", check.combinations},
                                          {"left_out", check.left_out},
                                          {"failed", selection.failed},
                                          {"rows", std::move(rows)}})};
  const bool is_shortened = command.common.output && !command.top;
  Table table = table_of(sweep, selection, command, by, is_shortened ? kMostRowsBesideFile : kMaxCombinations);
  const std::size_t hidden = selection.rows.size() - table.rows.size();
  if (!table.rows.empty()) answer.table(std::move(table));
  if (hidden > 0) answer.line("... and " + std::to_string(hidden) + " rows more in the table");
  answer.line(totals_text(selection, check, command));
  if (command.common.output) {
    const std::string csv_name = write_table(*command.common.output, sweep, store);
    const std::string page_name = fs::path{csv_name}.replace_extension("html").string();
    write_file(*command.common.output / page_name,
               render_html(sweep_document(results_of(sweep, selection, command, by, csv_name))));
    add_written(answer, command.common, *command.common.output, {csv_name, page_name, "results.sqlite"});
  }
  if (is_complete && selection.failed < selection.finished) return answer;
  (void)print(answer, command.common.prints_json);
  if (!is_complete) end_incomplete(sweep, store, check, command);
  std::string first;
  sweep.for_each_row(store, [&](const SweepRow& row) {
    if (first.empty()) first = row.error;
  });
  throw NoResultError{"no combination has a result; the first: " + first};
}

}  // namespace

CommandVerb sweep_verb() {
  return make_verb<SweepCommand>(
      "sweep",
      "Simulate every combination of a grid; what has finished is kept, and the same command goes on where it "
      "stopped\n\n"
      "Values: a,b,c   1..8   0..1+0.25   1..64*2\n"
      "Conditions: and or not  == != < <= > >=  + - * / ( )  numbers, 'texts', keys of summary.json, JSON pointers\n"
      "Example: rehearse sweep scenarios/cm-dare.json --grid /cluster/groups/1/count=1..8 --grid "
      "/workload/batch_per_worker=32..256*2 --where \"gpu_utilization > 0.5\" --top 5 -o results/sweep\n"
      "Example: rehearse sweep scenarios/sweeps/cm-dare-workers.json -o results/sweep",
      add_options, run);
}

}  // namespace rehearse
