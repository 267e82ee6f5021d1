// `rehearse calibrate` on a study of kind "lifetimes": from recorded lifetimes and fleets to spot pools of a catalog.

#include <nlohmann/json.hpp>

#include "calibration/lifetime_study.hpp"
#include "sim/app/calibrate_command.hpp"
#include "sim/app/output/lifetime_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"

namespace rehearse {

namespace fs = std::filesystem;

Answer calibrate_lifetimes(const CalibrateCommand& command) {
  if (command.studies.size() > 1)
    throw InputError{"calibrate: a study of lifetimes goes alone; found " + std::to_string(command.studies.size()) +
                     " studies"};
  if (command.bootstrap) throw InputError{"calibrate: --bootstrap does not go with a study of lifetimes"};
  const LifetimeStudy study = load_lifetime_study(command.studies.front());
  const auto made = make_folder_of(command.common.output), made_for_report = make_folder_of(command.report);
  Progress progress{"lifetimes", command.common.is_quiet};
  const auto check = [&command] { command.common.budget.check(); };
  std::vector<SeriesFit> fits;
  std::vector<SeriesQuality> qualities;
  for (const LifetimeSeries& series : study.series) {
    fits.push_back(fit_series(series, check));
    qualities.push_back(check_series(series, fits.back().pool, check));
    progress.update(static_cast<std::int64_t>(fits.size()), static_cast<std::int64_t>(study.series.size()));
  }
  Answer answer{.json = to_json_text(lifetime_catalog(fits))};
  std::vector<std::pair<fs::path, std::string>> files;  // both or none
  if (command.report) files.emplace_back(*command.report, lifetime_report(study, fits, qualities));
  if (command.common.output) files.emplace_back(*command.common.output, answer.json);
  write_files(files);
  for (const auto& [file, content] : files) add_written(answer, command.common, file);
  for (std::size_t i = 0; i < fits.size(); ++i)
    answer.row("%-40s %s", {fits[i].pool.name, describe(fits[i]) + "; " + describe(study.series[i], qualities[i])});
  return of_fit(command.common, std::move(answer));
}

}  // namespace rehearse
