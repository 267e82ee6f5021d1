#include "sim/app/option_names.hpp"

#include <CLI/CLI.hpp>

#include "sim/app/program.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool knows(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The mistyped verb or option, with what it may have meant; empty if all are known.
std::string describe_unknown(const CLI::App& app, const std::vector<std::string>& arguments, std::string& see) {
  const std::vector<std::string> verbs = verbs_of(app);
  const CLI::App* verb = &app;
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (verb == &app && !argument.starts_with('-')) {
      if (!knows(verbs, argument)) return unknown_name_message("verb", argument, verbs);
      verb = app.get_subcommand(argument);
      see = "rehearse " + argument + " --help";
      continue;
    }
    const std::string name = argument.substr(0, argument.find('='));
    if (!name.starts_with("--") || name.size() < 4) continue;  // -1 and --1 may be values
    if (const std::vector<std::string> options = options_of(*verb); !knows(options, name))
      return unknown_name_message("option", name, options);
  }
  return {};
}

}  // namespace

void refuse_empty_values(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; }))
    for (CLI::Option* option : verb->get_options([](CLI::Option*) { return true; }))
      if (option->get_items_expected_max() > 0) option->check(is_not_empty);
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string see = "rehearse --help";
  const std::string unknown = describe_unknown(app, {argv + 1, argv + std::max(1, argc)}, see);
  return (unknown.empty() ? error.what() : unknown) + std::string{"; see "} + see;
}

}  // namespace rehearse
