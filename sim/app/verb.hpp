#pragma once
// A verb of the command line. One verb is one file, NAME_command.cpp, which declares its options beside what runs them
// and defines NAME_verb(), that returns
//   make_verb<NameCommand>("NAME", "What it does\n\nExample: rehearse NAME file", add_options, run)
// where run() takes the command and returns an Answer, which is printed then.
//
// A program is the list of its verbs: main.cpp, predictor_main.cpp.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/app/output/answer.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/units.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rehearse {

inline constexpr int kSuccess = 0;
inline constexpr int kBadInput = 2;
inline constexpr int kNoResult = 3;
inline constexpr int kInterrupted = 130;

/// What several verbs share. Each has those that it declares by the helpers below, and the last three always.
struct CommonOptions {
  std::vector<std::filesystem::path> catalogs;  // the user's own, over the shipped ones
  std::optional<std::filesystem::path> output;  // -o
  int parallel = 1;                             // -j
  std::string executor = "processes";           // --executor: where jobs run
  std::string slurm_options, shard;             // as typed
  bool is_resumed = false;                      // --resume
  bool is_quiet = false;
  bool prints_json = false;
  std::string max_wall_time;           // as typed
  std::set<std::string> given;         // names of the options that were typed, such as "--set"
  std::vector<std::string> arguments;  // after the program's name
  std::string command_line;            // provenance
  Budget budget;                       // of the whole command
};

/// An option or argument of a verb, as CLI11 has it: each call adds to it. CLI11's header, which takes seconds to
/// compile, is included by the sources of this one alone.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_{option} {}

  Option required();
  /// The word that stands for the value in the help.
  Option type_name(const std::string& name);
  /// A vector takes one value each time that the option is given.
  Option repeatable();
  /// A vector takes several values at once, with `separator` between them.
  Option delimiter(char separator);
  /// `check` returns what is wrong with a text, or nothing (program.hpp has several).
  Option check(const std::function<std::string(const std::string&)>& check);
  /// The value is a number from `lowest` to `highest`, which the help tells: an int, std::int64_t or double.
  template <class Number>
  Option range(Number lowest, Number highest);
  /// The help tells the default: the one that the variable has, or `text`.
  Option shows_default();
  Option shows_default(const std::string& text);
  /// The option cannot be given together with the option `other`, such as "--seed".
  Option excludes(const std::string& other);

 private:
  CLI::Option* option_;
};

/// The options and arguments of one verb, in the order of its help.
class Options {
 public:
  explicit Options(CLI::App& verb) : verb_{&verb} {}

  /// `names` as in "-o,--output", or "SCENARIO" of an argument. The value is read into `value`, which must live as long
  /// as the verb: a text, path or number, an optional of one, or a vector of texts or paths (verb.cpp lists the types).
  template <class Value>
  Option add_option(const std::string& names, Value& value, const std::string& help);
  /// The same of a value for which the help has the word `type_name`.
  template <class Value>
  Option add_option(const std::string& names, Value& value, const std::string& type_name, const std::string& help) {
    return add_option(names, value, help).type_name(type_name);
  }
  /// The same of a whole number N from `least` to `most`.
  template <class Value>
  Option add_count(const std::string& names, Value& value, std::int64_t least, std::int64_t most,
                   const std::string& help) {
    return add_option(names, value, "N", help).range(least, most);
  }
  /// A list whose option is given once for each of its texts, each of them a `type_name`.
  Option add_repeatable(const std::string& names, std::vector<std::string>& values, const std::string& type_name,
                        const std::string& help);
  void add_flag(const std::string& names, bool& value, const std::string& help);

 private:
  CLI::App* verb_;
};

/// The command of a verb about one scenario.
struct ScenarioCommand {
  CommonOptions common;
  std::filesystem::path scenario;      // a file, or
  std::string model, instance;         // .. this model on these machines
  std::optional<int> batch;            // of each of their GPUs
  std::vector<std::string> overrides;  // "/pointer=value"

  /// What messages call the scenario.
  std::string file_name() const { return model.empty() ? scenario.string() : "--model " + model; }
};

// Options that several verbs have.
/// Adds SCENARIO, what may stand in its place, and --set.
void add_scenario(Options options, ScenarioCommand& command);
Option add_catalogs(Options options, CommonOptions& common,
                    const std::string& help =
                        "Folder with the user's own accelerators, instances, regions, models and "
                        "profiles; repeatable");
Option add_overrides(
    Options options, std::vector<std::string>& overrides,
    const std::string& help =
        "Override a scenario field: /json/pointer=value, or workers.count=8 of the group workers, or take "
        "it away: /json/pointer=null; repeatable");
void add_json(Options options, CommonOptions& common,
              const std::string& help = "Print the result as JSON instead of text");
void add_quiet(Options options, CommonOptions& common, const std::string& help = "No progress on stderr");
/// Adds -o, a folder, and --quiet.
Option add_output(Options options, CommonOptions& common, const std::string& help);
/// Adds -j, whose default is the number of processors, and where jobs run: --executor, --slurm-options, --shard, --resume.
void add_parallel(Options options, CommonOptions& common);
/// Adds --max-run-time of each simulation, which read_max_run_time() reads. `then`: what becomes of one that takes longer.
void add_max_run_time(Options options, std::string& text, const std::string& then = {});
/// Adds --max-wall-time, which every verb that works for a while has.
void add_wall_time(Options options, CommonOptions& common);

/// Adds the last options of a verb that simulates, works for a while and has one result: --json, --catalog, -o,
/// --quiet, -j and --max-wall-time. `json` and `output` are the help of --json and -o.
void add_work_options(Options options, CommonOptions& common, const std::string& json, const std::string& output);

/// The time that an option was given as a text; none if the text is empty. Throws InputError, which names the option.
std::optional<Seconds> read_seconds(const std::string& option, const std::string& text);
/// "0.95", "95%", "95 %". Empty: none. Throws InputError.
std::optional<double> read_share(const std::string& option, const std::string& text);

/// The same of --max-run-time, which is above 0s.
std::optional<Seconds> read_max_run_time(const std::string& text);

/// A verb as a program lists it.
struct CommandVerb {
  std::string name, help;                    // the help ends with examples
  std::function<void(Options)> add_options;  // none: another program's verb, here for --help alone
  std::shared_ptr<CommonOptions> common;     // of the command that `run` is about
  std::function<int()> run;                  // returns the exit code
};

/// A verb whose options are read into a Command, which has CommonOptions `common` among them, and whose answer is printed.
template <class Command>  // NOLINTNEXTLINE(performance-unnecessary-value-param): both are moved from, in a template
CommandVerb make_verb(std::string name, std::string help, void (*add_options)(Options options, Command& command),
                      Answer (*run)(const Command& command)) {
  const auto command = std::make_shared<Command>();
  return {.name = std::move(name),
          .help = std::move(help),
          .add_options = [command, add_options](Options options) { add_options(options, *command); },
          .common = {command, &command->common},
          .run = [command, run] { return print(run(*command), command->common.prints_json); }};
}

/// Reads a command line and runs the one of `verbs` that it names; returns the exit code. `description` heads the help,
/// in which the program is called `name`, or as the user called it if that is empty. Throws InputError.
int run_verb(const std::string& name, const std::string& description, const std::vector<CommandVerb>& verbs, int argc,
             char** argv);

}  // namespace rehearse
