// Every scenario in scenarios/ can be read and runs.

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "tests/support/simulated.hpp"

namespace rehearse {

TEST_CASE("every shipped scenario runs for a few steps") {
  const std::set<std::string> others{"provision", "queue", "spaces", "studies", "sweeps"};  // other kinds of files
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{source_folder() + "/scenarios"}) {
    const std::string folder = entry.path().lexically_relative(source_folder() + "/scenarios").begin()->string();
    if (entry.path().extension() == ".json" && !others.contains(folder)) files.insert(entry.path());
  }
  CHECK(files.size() >= 23);
  for (const std::filesystem::path& file : files) {
    CAPTURE(file);
    const Json summary = test::in_child([&] {
      Json json = load_json_file(file);
      for (const char* size : {"steps_per_worker", "samples"}) json["training"].erase(size);
      json["training"]["steps"] = 8;
      if (file.parent_path().filename() ==
          "faults") {  // thousands of machines, whose steps simulate --runs simulates as here
        for (Json& group : json["cluster"]["groups"]) group.erase("faults");
        for (const char* key : {"checkpoint", "recovery"}) json["training"].erase(key);
      }
      if (file.parent_path().filename() == "control") {  // rules are asked in many runs
        json["training"].erase("control");
        Json& groups = json["cluster"]["groups"];
        for (std::size_t g = groups.size(); g-- > 0;)
          if (groups[g].value("standby", false)) groups.erase(g);
      }
      const Scenario scenario = read_scenario(json, file.string(), test::shipped_catalog());
      return to_json(scenario, summarize(scenario, simulate(scenario, {})));
    });
    CHECK_MESSAGE(!summary.contains("error"), summary.dump());
    CHECK(summary.value("steps_per_s", 0.0) > 0);
  }
}

}  // namespace rehearse
