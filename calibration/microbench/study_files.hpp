#pragma once
// What microbench leaves in its folder, which is a catalog of the user's own (`--catalog FOLDER`):
//   accelerators.json              the device, and a machine with it, as entries of a catalog
//   study/kernels.json, study/*.csv   measured kernels and the study of them, for `rehearse calibrate`
//   study/system.csv               of a GPU: launches, copies, collectives, clock, power
//   profiles/microbench.json       what `calibrate` wrote, with the dispatch that was measured
//   models/*.json, scenarios/*.json   networks whose steps are predicted and measured
//   paused/measurements.json, paused/*.csv   the same with a pause after each step, for `rehearse import`
//   profiles/paused.json           the profile with that pause

#include <filesystem>
#include <string>
#include <vector>

#include "calibration/microbench/measured_tables.hpp"
#include "calibration/microbench/network_steps.hpp"
#include "sim/base/json.hpp"

namespace rehearse::microbench {

inline constexpr const char* kProfileName = "microbench";
inline constexpr const char* kInstanceName = "microbench machine";

/// The catalog file: an accelerator's entry as `rehearse list` reads it, and an instance that has one.
Json catalog_entry(const Accelerator& accelerator);

/// The accelerator of a catalog file that catalog_entry() wrote; none if the file is not there. Throws InputError.
std::optional<Accelerator> read_catalog_entry(const std::filesystem::path& file);

/// The study of the tables' rows of `device`, which lie in the study's folder.
Json kernel_study(const MeasuredTables& tables, const std::string& device);

/// The table study/system.csv.
std::string system_table(const std::vector<SystemFigure>& figures);

/// The profile before the fit: what the host does for each operator, and no kernels.
Json profile_start(double dispatch);

/// A scenario of one worker and one step after another: `model` is a name in the catalog.
Json step_scenario(const std::string& model, int batch);

inline constexpr const char* kPausedProfileName = "paused";

/// `profile`, whose steps end with a pause of the host.
Json paused_profile(Json profile, double pause);

/// Steps with a pause of so many seconds after each, as a series of whole periods: time_s, gpu_utilization. What the
/// thread computed in a step is spread evenly over it.
std::string paused_series(const std::vector<BusySpan>& steps, double pause, double period);

/// Mean time from the start of a step to that of the next one, which begins right after the pause.
double paused_step_time(const std::vector<BusySpan>& steps, double pause);

/// An entry of paused/measurements.json.
Json paused_measurement(const std::string& model, double step_time);

}  // namespace rehearse::microbench
