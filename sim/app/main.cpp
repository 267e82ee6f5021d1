// rehearse: the list of its verbs. What each does, and its options, are in the file of its name (verb.hpp).

#include <algorithm>
#include <string_view>

#include "sim/app/predictor_program.hpp"
#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"

/// The verbs in the order of --help: NAME is NAME_verb() of NAME_command.cpp. A new one is a line here, its file, and
/// that file in CMakeLists.txt.
#define REHEARSE_VERBS(verb)                                                                                        \
  verb(init) verb(simulate) verb(validate) verb(calibrate) verb(fit) verb(sweep) verb(provision) verb(queue)        \
      verb(diff) verb(remaining) verb(replay) verb(export) verb(traffic) verb(diagnose) verb(import) verb(generate) \
          verb(list) verb(schema) verb(merge) verb(jobs) verb(predict)

namespace rehearse {

#define REHEARSE_DECLARE(name) CommandVerb name##_verb();
REHEARSE_VERBS(REHEARSE_DECLARE)

namespace {

std::vector<CommandVerb> own_verbs() {
#define REHEARSE_MAKE(name) name##_verb(),
  return {REHEARSE_VERBS(REHEARSE_MAKE)};
}

/// A verb of another program, for --help.
CommandVerb verb(const char* name, const char* help) { return {.name = name, .help = help}; }

/// The verbs of rehearse-predictor, and what it says of them.
std::vector<CommandVerb> predictor_verbs() {
  return {verb("train", "Train a graph neural network on a dataset\n\nExample: rehearse train dataset.db -o model"),
          verb("compare",
               "Predictions beside labels: errors per metric, family and setting\n\nExample: rehearse compare model "
               "dataset.db")};
}

int run_command_line(int argc, char** argv) {
  std::vector<CommandVerb> verbs = own_verbs();
  const std::vector<CommandVerb> others = predictor_verbs();
  if (argc > 1 && std::ranges::find(others, argv[1], &CommandVerb::name) != others.end())
    start_program(kPredictorProgram, {argv, argv + argc});
  if (argc > 1 && std::string_view{argv[1]} == "microbench") start_program(kMicrobenchProgram, {argv, argv + argc});
  if (argc > 1 && std::string_view{argv[1]} == "view") start_program(kViewProgram, {argv, argv + argc});
  verbs.insert(verbs.end(), others.begin(), others.end());
  verbs.push_back(verb("microbench",
                       "Measure this machine's kernels: an accelerator, tables, a study and a profile\n\n"
                       "Example: rehearse microbench -o my-gpu"));
  verbs.push_back(verb("view",
                       "Results in a browser: a list of all runs, two compared, a form that changes a scenario and "
                       "runs it\n\nExample: rehearse view results"));
  limit_memory();
  return run_verb("",
                  "Rehearse: try a distributed training run before paying for it.\n"
                  "Simulates the operators, GPUs, parameter servers and network of a cluster, event by event.\n"
                  "\nExample: rehearse init && rehearse simulate scenario.json -o results",
                  verbs, argc, argv);
}

}  // namespace

}  // namespace rehearse

int main(int argc, char** argv) { return rehearse::run_program("rehearse", rehearse::run_command_line, argc, argv); }
