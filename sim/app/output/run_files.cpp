#include "sim/app/output/run_files.hpp"
#include <nlohmann/json.hpp>
#include "sim/base/files.hpp"
#include "sim/app/output/tables.hpp"

namespace rehearse {
void write_run_files(const std::filesystem::path& folder, const Scenario& scenario, const RunRecord& , const Summary& summary) {
  write_file(folder / "summary.json", to_json_text(to_json(scenario, summary)));
  write_file(folder / "scenario.json", scenario.effective);
}
}
