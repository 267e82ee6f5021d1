// rehearse init: a starter scenario.

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

struct InitCommand {
  CommonOptions common;
  std::string name = "scenario";
};

void add_options(Options options, InitCommand& command) {
  options.add_option("NAME", command.name, "File name without .json").shows_default();
  add_json(options, command.common);
}

int run(const InitCommand& command) {
  const std::string& given = command.name;
  const std::string name = given.ends_with(".json") ? given.substr(0, given.size() - 5) : given;
  const std::string file = fs::path{name}.filename().string();
  if (file.empty() || file == "." || file == "..")
    throw InputError{"init: expected a file name, without .json; found " + in_quotes(given)};
  const fs::path path = name + ".json";
  if (fs::exists(path)) throw InputError{path.string() + ": exists already; choose another name"};
  write_file(path, starter_scenario(file));
  show(command.common, {{"file", path.string()}}, [&] { std::printf("%s\n", printable(path.string()).c_str()); });
  return kSuccess;
}

}  // namespace

CommandVerb init_verb() {
  return make_verb<InitCommand>(
      "init", "Write a commented starter scenario, NAME.json\n\nExample: rehearse init my-run", add_options, run);
}

}  // namespace rehearse
