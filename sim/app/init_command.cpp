// rehearse init: files to start from.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/app/setup.hpp"
#include "sim/app/starters.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

struct InitCommand {
  CommonOptions common;
  std::string name = "scenario", kind = "scenario";
};

void add_options(Options options, InitCommand& command) {
  options.add_option("NAME", command.name, "File name without .json").shows_default();
  options
      .add_option("--kind", command.kind, "KIND",
                  "What to write: " + joined(starter_kinds()) + "; of a catalog NAME is its folder")
      .shows_default();
  add_json(options, command.common);
}

Answer run(const InitCommand& command) {
  const std::string& given = command.name;
  const std::string name = given.ends_with(".json") ? given.substr(0, given.size() - 5) : given;
  const std::string last = fs::path{name}.filename().string();
  if (last.empty() || last == "." || last == "..")
    throw InputError{"init: expected a file name, without .json; found " + in_quotes(given)};
  const std::vector<StarterFile> files = about("--kind", [&] { return starter_files(command.kind, name); });
  for (const StarterFile& file : files)
    if (fs::exists(file.path)) throw InputError{file.path + ": exists already; choose another name"};
  const auto made = command.kind == "catalog" ? make_folder(name) : std::nullopt;
  Answer answer;
  Json names = Json::array();
  for (const StarterFile& file : files) {
    write_file(file.path, file.text);
    names.push_back(file.path);
    answer.line(printable(file.path));
  }
  answer.json = to_json_text({{"file", files.front().path}, {"files", names}});
  return answer;
}

}  // namespace

CommandVerb init_verb() {
  return make_verb<InitCommand>("init",
                                "Write a commented file to start from, NAME.json, and the files that it names\n\n"
                                "Example: rehearse init my-run\n"
                                "         rehearse init my-sweep --kind sweep",
                                add_options, run);
}

}  // namespace rehearse
