// Which folder may include which: the layers of the program, kept by a test. Also: heavy libraries stay where they
// belong.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace fs = std::filesystem;

TEST_CASE("every include respects the layers") {
  const std::map<std::string, std::vector<std::string>> allowed{
      {"sim/base", {}},
      {"platforms", {"sim/base"}},
      {"workloads", {"sim/base"}},
      {"sim/engine", {"sim/base", "platforms", "workloads"}},
      {"sim/pool", {"sim/base", "sim/engine"}},
      {"calibration", {"sim/base", "platforms", "workloads", "sim/engine", "sim/pool"}},
      {"sim/plan", {"sim/base", "platforms", "workloads", "sim/engine", "sim/pool", "calibration"}},
      {"predictor", {"sim/base", "platforms", "workloads", "sim/engine", "sim/pool", "calibration", "sim/plan"}},
      {"predictor/gnn",
       {"sim/base", "platforms", "workloads", "sim/engine", "sim/pool", "calibration", "sim/plan", "predictor"}},
      {"sim/app",  // predictor/gnn: the sources of rehearse-predictor alone, see libraries_test.cpp
       {"sim/base", "platforms", "workloads", "sim/engine", "sim/pool", "calibration", "sim/plan", "predictor",
        "predictor/gnn"}},
  };
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
            CHECK_MESSAGE(name == "sim/engine/simgrid_backend.cpp", (name + " includes " + target));
          if (target.starts_with("sqlite3"))
            CHECK_MESSAGE((name == "sim/pool/result_store.cpp" || name == "predictor/detail/sqlite.hpp"),
                          (name + " includes " + target));
          if (target.starts_with("torch/") || target.starts_with("ATen/") || target.starts_with("c10/"))
            CHECK_MESSAGE((folder == "predictor/gnn" && extension == ".cpp"), (name + " includes " + target));
          if (target.starts_with("nlohmann/json.hpp"))
            CHECK_MESSAGE((extension == ".cpp" || name == "predictor/space.hpp" || name == "sim/plan/remedies.hpp"),
                          (name + " includes " + target));
        }
      }
    }
  }
  CHECK(files > 60);
}

}  // namespace rehearse
