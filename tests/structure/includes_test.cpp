// Which folder may include which: the layers of the program, kept by a test. Also: heavy libraries stay where they
// belong.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace fs = std::filesystem;

TEST_CASE("every include respects the layers") {
  // Each folder may include itself, and of those above it in this list the ones named, or all.
  using Folders = std::vector<std::string>;
  const std::optional<Folders> all;
  const std::vector<std::pair<std::string, std::optional<Folders>>> layers{
      {"sim/base", Folders{}},
      {"platforms", Folders{"sim/base"}},
      {"workloads", Folders{"sim/base"}},
      {"workloads/traces", Folders{"sim/base"}},
      {"workloads/importers", Folders{"sim/base", "workloads", "workloads/traces"}},
      {"sim/resources", Folders{"sim/base", "platforms"}},
      {"sim/collective", Folders{"sim/base", "platforms", "sim/resources"}},
      {"sim/scenario", Folders{"sim/base", "platforms", "workloads", "workloads/importers", "sim/collective"}},
      {"sim/record", Folders{"sim/base", "platforms", "workloads", "sim/resources", "sim/scenario"}},
      {"sim/traffic", Folders{"sim/base", "platforms", "sim/record"}},
      {"sim/program",
       Folders{"sim/base", "platforms", "sim/resources", "sim/collective", "sim/scenario", "sim/record"}},
      {"sim/training", Folders{"sim/base", "platforms", "workloads/traces", "sim/resources", "sim/collective",
                               "sim/scenario", "sim/program"}},
      {"sim/job", all},
      {"sim/pool", Folders{"sim/base", "sim/scenario", "sim/record", "sim/job"}},
      {"sim/queue", all},
      {"sim/view", Folders{"sim/base"}},
      {"calibration", all},
      {"sim/plan", all},
      {"predictor", all},
      {"predictor/gnn", all},
      {"calibration/microbench", all},
      {"sim/app", all},  // predictor/gnn: the sources of rehearse-predictor alone, see libraries_test.cpp
  };
  std::map<std::string, Folders> allowed;
  Folders above;
  for (const auto& [folder, named] : layers) {
    allowed[folder] = named.value_or(above);
    for (const std::string& other : allowed[folder])
      CHECK_MESSAGE(std::find(above.begin(), above.end(), other) != above.end(), (folder + " is not below " + other));
    above.push_back(folder);
  }
  const fs::path root = source_folder();
  const std::regex include{R"re(^\s*#include\s*([<"])([^">]+)[">])re"};
  const auto folder_of = [&](const std::string& path) -> std::string {
    std::string found;  // the innermost: predictor/gnn rather than predictor
    for (const auto& [folder, others] : allowed)
      if (path.starts_with(folder + "/") && folder.size() > found.size()) found = folder;
    return found;
  };
  std::size_t files = 0;
  for (const auto& [folder, others] : allowed) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator{root / folder}) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp") continue;
      const std::string name = entry.path().lexically_relative(root).string();
      if (folder_of(name) != folder) continue;
      ++files;
      std::istringstream lines{read_file(entry.path(), 4 * kMiB)};
      for (std::string line; std::getline(lines, line);) {
        std::smatch match;
        if (!std::regex_search(line, match, include)) continue;
        const std::string target = match[2];
        if (match[1] == "\"") {
          const std::string other = folder_of(target);
          CHECK_MESSAGE(!other.empty(),
                        (name + ": " + target + " is not written from the root, or lies in no folder of the program"));
          const bool may = other == folder || std::find(others.begin(), others.end(), other) != others.end();
          CHECK_MESSAGE(may, (name + " may not include " + target));
        } else {
          if (target.starts_with("simgrid/"))
            CHECK_MESSAGE(name == "sim/resources/simgrid_engine.cpp", (name + " includes " + target));
          if (target.starts_with("sqlite3"))
            CHECK_MESSAGE(name == "sim/base/sqlite.hpp", (name + " includes " + target));
          if (target == "httplib.h") CHECK_MESSAGE(name == "sim/app/view_server.cpp", (name + " includes " + target));
          if (target.starts_with("torch/") || target.starts_with("ATen/") || target.starts_with("c10/"))
            CHECK_MESSAGE((((folder == "predictor/gnn" || folder == "calibration/microbench") && extension == ".cpp") ||
                           name == "predictor/gnn/detail/metrics_layers.hpp"),  // of two sources
                          (name + " includes " + target));
          if (target.starts_with("nlohmann/json.hpp"))
            CHECK_MESSAGE(
                (extension == ".cpp" || name == "predictor/space.hpp" || name == "workloads/importers/importer.hpp" ||
                 name == "workloads/importers/huggingface_conversion.hpp" || name == "sim/plan/remedies.hpp"),
                (name + " includes " + target));
        }
      }
    }
  }
  CHECK(files > 60);
}

}  // namespace rehearse
