#include "sim/app/output/run_files.hpp"

#include <nlohmann/json.hpp>

#include "sim/app/output/kineto_trace.hpp"
#include "sim/app/output/tables.hpp"
#include "sim/app/output/timeline.hpp"
#include "sim/base/files.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/record/memory_curve.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/traffic/messages.hpp"

namespace rehearse {

std::vector<std::string> write_run_files(const std::filesystem::path& folder, const FinishedRun& run,
                                         TimelineFormat timeline_format, const Budget& budget) {
  const Scenario& scenario = run.scenario;
  const RunRecord& record = run.record;
  ResourceProfile profile = resource_profile(scenario, record);
  const MemoryCurves memory{scenario, record};
  add_gpu_memory(memory, profile);
  OutputFolder files{folder};
  const auto write = [&](const std::string& name, const auto& make) {
    budget.check();
    files.write(name, make());
  };
  write("scenario.json", [&] { return to_json_text(*scenario.effective); });
  write("iterations.csv", [&] { return iterations_csv(record); });
  write("resources.csv", [&] { return resources_csv(record, profile); });
  write("bursts.csv", [&] { return bursts_csv(record, profile); });
  write("links.csv", [&] { return links_csv(record); });
  write("events.csv", [&] { return events_csv(record); });
  write("costs.csv", [&] { return costs_csv(scenario, record); });
  write("messages.csv.gz", [&] { return gzip(messages_csv(messages_of(record), machine_names(record))); });
  if (timeline_format == TimelineFormat::kKineto) {
    const KinetoTraces traces{scenario, record};
    for (const int rank : traces.ranks())
      write("kineto/rank-" + std::to_string(rank) + ".json.gz", [&] { return gzip(traces.text(rank)); });
  } else {
    write("timeline.json.gz", [&] {
      Gzip packed;
      write_timeline(scenario, record, profile, [&packed](std::string_view part) { packed.add(part); });
      return packed.finish();
    });
  }
  write("report.html", [&] { return render_html(run_document(run, memory)); });
  write("summary.json", [&] { return to_json_text(to_json(scenario, run.summary)); });
  budget.check();
  files.commit();
  return files.names();
}

}  // namespace rehearse
