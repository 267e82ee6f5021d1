#include "sim/app/verb.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "sim/app/executor.hpp"
#include "sim/app/option_names.hpp"
#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace fs = std::filesystem;

Option Option::required() { return Option{option_->required()}; }

Option Option::type_name(const std::string& name) { return Option{option_->type_name(name)}; }

Option Option::repeatable() { return Option{option_->allow_extra_args(false)}; }

Option Option::delimiter(char separator) { return Option{option_->delimiter(separator)}; }

Option Option::check(const std::function<std::string(const std::string&)>& check) {
  return Option{option_->check(check)};
}

template <class Number>
Option Option::range(Number lowest, Number highest) {
  const auto written = [](Number number) {
    if constexpr (std::is_integral_v<Number>) return std::to_string(number);
    return to_text(static_cast<double>(number));
  };
  const std::string numbers = written(lowest) + " to " + written(highest);
  CLI::Range range{lowest, highest};
  const auto is_outside = [range](const std::string& text) { return range(text); };
  return Option{option_->check(CLI::Validator{[is_outside, numbers](std::string& text) {
                                                return is_outside(text).empty() ? ""
                                                                                : "expected a number from " + numbers +
                                                                                      "; found " + in_quotes(text);
                                              },
                                              range.get_description()})};
}

template Option Option::range(int, int);
template Option Option::range(std::int64_t, std::int64_t);
template Option Option::range(double, double);

Option Option::shows_default() { return Option{option_->capture_default_str()}; }

Option Option::shows_default(const std::string& text) { return Option{option_->default_str(text)}; }

Option Option::excludes(const std::string& other) { return Option{option_->excludes(other)}; }

template <class Value>
Option Options::add_option(const std::string& names, Value& value, const std::string& help) {
  return Option{verb_->add_option(names, value, help)};
}

// The types that options have.
template Option Options::add_option(const std::string&, std::string&, const std::string&);
template Option Options::add_option(const std::string&, fs::path&, const std::string&);
template Option Options::add_option(const std::string&, int&, const std::string&);
template Option Options::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Options::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Options::add_option(const std::string&, double&, const std::string&);
template Option Options::add_option(const std::string&, std::optional<std::string>&, const std::string&);
template Option Options::add_option(const std::string&, std::optional<fs::path>&, const std::string&);
template Option Options::add_option(const std::string&, std::optional<int>&, const std::string&);
template Option Options::add_option(const std::string&, std::optional<std::uint64_t>&, const std::string&);
template Option Options::add_option(const std::string&, std::optional<double>&, const std::string&);
template Option Options::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Options::add_option(const std::string&, std::vector<int>&, const std::string&);
template Option Options::add_option(const std::string&, std::vector<fs::path>&, const std::string&);

Option Options::add_repeatable(const std::string& names, std::vector<std::string>& values, const std::string& type_name,
                               const std::string& help) {
  return add_option(names, values, help).repeatable().type_name(type_name);
}

void Options::add_flag(const std::string& names, bool& value, const std::string& help) {
  verb_->add_flag(names, value, help);
}

void add_scenario(Options options, ScenarioCommand& command) {
  options.add_option("SCENARIO", command.scenario, "Scenario file; or --model, --instance and --batch");
  options.add_option("--model", command.model, "MODEL",
                     "Model that is trained (rehearse list models), by all-reduce, in place of a scenario");
  options.add_option("--instance", command.instance, "NAME=N",
                     "With --model: the machines (rehearse list instances), one or N of them");
  options.add_count("--batch", command.batch, 1, 65536, "With --model: samples of each GPU in a step");
  add_overrides(options, command.overrides);
}

Option add_catalogs(Options options, CommonOptions& common, const std::string& help) {
  return options.add_option("--catalog", common.catalogs, "DIR", help).repeatable();
}

Option add_overrides(Options options, std::vector<std::string>& overrides, const std::string& help) {
  return options.add_repeatable("--set", overrides, "POINTER=VALUE", help);
}

void add_json(Options options, CommonOptions& common, const std::string& help) {
  options.add_flag("--json", common.prints_json, help);
}

void add_quiet(Options options, CommonOptions& common, const std::string& help) {
  options.add_flag("--quiet", common.is_quiet, help);
}

Option add_output(Options options, CommonOptions& common, const std::string& help) {
  const Option output = options.add_option("-o,--output", common.output, "DIR", help);
  add_quiet(options, common);
  return output;
}

void add_parallel(Options options, CommonOptions& common) {
  common.parallel = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.add_count("-j,--jobs", common.parallel, 1, 1024,
                    "Simulations at a time (default: the number of processors; of a Slurm task: 1)");
  options
      .add_option("--executor", common.executor, "WHERE",
                  "Where simulations run: processes (of this machine), slurm, or merged: nowhere, shards have run them")
      .check(is_one_of({"processes", "slurm", "merged"}))
      .shows_default();
  options.add_option("--slurm-options", common.slurm_options, "OPTIONS",
                     "More options of sbatch, such as '--partition=short --time=60' (default: none)");
  options.add_option(
      "--shard", common.shard, "I/N",
      "Run part I of N, kept in OUTPUT.jobs; after all of them: rehearse merge OUTPUT.jobs (default: all)");
  options.add_flag("--resume", common.is_resumed,
                   "Take up what --executor slurm or --shard has left; without it, too, if it is there");
}

void add_max_run_time(Options options, std::string& text, const std::string& then) {
  options.add_option("--max-run-time", text, "T",
                     "Give up on one simulation after this much real time, such as 30s" + then + " (default: none)");
}

void add_wall_time(Options options, CommonOptions& common) {
  options.add_option("--max-wall-time", common.max_wall_time, "T",
                     "End the whole command after this much real time, such as 30s or 5min, with exit code 3; what is "
                     "finished is kept (default: none)");
}

void add_work_options(Options options, CommonOptions& common, const std::string& json, const std::string& output) {
  add_json(options, common, json);
  add_catalogs(options, common);
  add_output(options, common, output);
  add_parallel(options, common);
  add_wall_time(options, common);
}

std::optional<Seconds> read_seconds(const std::string& option, const std::string& text) {
  if (text.empty()) return {};
  try {
    return parse_seconds(text);
  } catch (const QuantityError& error) { throw InputError{option + ": " + error.what()}; }
}

std::optional<double> read_share(const std::string& option, const std::string& text) {
  if (text.empty()) return {};
  double number = -1;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit{rest, static_cast<std::size_t>(text.data() + text.size() - rest)};
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const double share = unit == "%" ? number / 100 : number;
  if (error == std::errc{} && (unit.empty() || unit == "%") && share >= 0 && share <= 1) return share;
  std::string said =
      option + ": expected a share from 0 to 1, such as 0.95, or a percentage, such as 95%; found " + in_quotes(text);
  if (error == std::errc{} && unit.empty() && number > 1 && number <= 100) said += ": " + to_text(number) + "%?";
  throw InputError{said};
}

std::optional<Seconds> read_max_run_time(const std::string& text) {
  const std::optional<Seconds> time = read_seconds("--max-run-time", text);
  if (time && !(*time > Seconds{})) throw InputError{"--max-run-time: expected a time above 0s; found " + text};
  return time;
}

namespace {

std::string command_line_of(int argc, char** argv) {
  std::string line = "rehearse";
  for (int i = 1; i < argc; ++i) line += std::string{" "} + argv[i];
  return line;
}

/// The word in the place of a verb; empty if there is none. The options of others are not declared: that takes longer than
/// most of what a brief command does.
std::string verb_of(int argc, char** argv) {
  char** const end = argv + argc;
  char** const word = std::find_if(std::min(argv + 1, end), end, [](const char* argument) { return *argument != '-'; });
  return word == end ? "" : *word;
}

std::set<std::string> given_options(const CLI::App& verb) {
  std::set<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0)
      for (const std::string& name : option->get_lnames()) names.insert("--" + name);
  return names;
}

}  // namespace

int run_verb(const std::string& name, const std::string& description, const std::vector<CommandVerb>& verbs, int argc,
             char** argv) {
  CLI::App app{description};
  app.set_version_flag("--version", [] { return version_text(); });
  app.require_subcommand(1);
  if (!name.empty()) app.name(name);
  const std::string wanted = verb_of(argc, argv);
  for (const CommandVerb& verb : verbs) {
    CLI::App* declared = app.add_subcommand(verb.name, verb.help);
    if (verb.add_options && verb.name == wanted) verb.add_options(Options{*declared});
  }
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw InputError{describe_parse_error(app, error, argc, argv)};
  }
  const CLI::App& typed = *app.get_subcommands().front();
  const CommandVerb& verb = *std::ranges::find(verbs, typed.get_name(), &CommandVerb::name);
  verb.common->given = given_options(typed);
  verb.common->arguments = {argv + 1, argv + argc};
  verb.common->command_line = command_line_of(argc, argv);
  verb.common->budget = start_budget("rehearse", read_seconds("--max-wall-time", verb.common->max_wall_time));
  return run_with_jobs(*verb.common, verb.run);
}

}  // namespace rehearse
