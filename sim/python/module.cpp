// The extension of the Python package: simulate in this process. Everything else the package has the program do.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/app/estimate.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/simulate_once.hpp"
#include "sim/base/errors.hpp"

namespace py = pybind11;

namespace rehearse {

namespace {

/// One call at a time: a catalog, and the engine, are one thread's.
std::mutex& engine() {
  static std::mutex mutex;
  return mutex;
}

/// The shipped catalogs are read once in a process, the user's in each call.
const Catalog& shipped_catalog() {
  static const Catalog catalog = load_catalog({});
  return catalog;
}

/// A budget that is over once Python has a signal's exception to raise, which is_raised() then says. Asked every 256
/// events, it looks 20 times a second.
class Signals {
 public:
  Budget budget() {
    return Budget{std::nullopt, [this] { return look(); }};
  }

 private:
  bool look() {
    constexpr std::chrono::milliseconds kPatience{50};
    const auto now = std::chrono::steady_clock::now();
    if (is_raised_ || now - looked_at_ < kPatience) return is_raised_;
    looked_at_ = now;
    const py::gil_scoped_acquire interpreter;
    return is_raised_ = PyErr_CheckSignals() != 0;
  }

  bool is_raised_ = false;
  std::chrono::steady_clock::time_point looked_at_ = std::chrono::steady_clock::now();
};

std::string plain_json(const std::string& text, const std::string& file) { return parse_json(text, file).dump(); }

/// The text of summary.json, and the scenario's warnings.
std::pair<std::string, std::vector<std::string>> simulate_text(const std::string& text, const std::string& file,
                                                               const std::vector<std::string>& overrides,
                                                               std::optional<std::uint64_t> seed,
                                                               const std::vector<std::string>& catalogs) {
  const std::lock_guard only{engine()};
  std::optional<Catalog> own;
  if (!catalogs.empty()) {
    CommonOptions common;
    common.catalogs.assign(catalogs.begin(), catalogs.end());
    own.emplace(load_catalog(common));
  }
  const Catalog& catalog = own ? *own : shipped_catalog();
  Scenario scenario = read_scenario_with(parse_json(text, file), file, overrides, seed, catalog);
  const bool moves_profile = has_time_for_moved_profiles(scenario);
  SimulateOptions options;
  require_memory(scenario, options);
  Signals signals;
  const Budget budget = signals.budget();
  const double uncertainty = moves_profile ? uncertainty_by_profile(scenario, true, budget) : 0;
  Progress progress{"steps", true};
  const Simulated run = simulate_once(scenario, options, uncertainty, progress, budget);
  return {to_json_text(to_json(scenario, run.summary)), scenario.warnings};
}

}  // namespace

}  // namespace rehearse

PYBIND11_MODULE(_rehearse, module) {
  using namespace rehearse;
  py::register_exception<InputError>(module, "InputError", PyExc_ValueError);
  py::register_exception<NoResultError>(module, "NoResultError", PyExc_RuntimeError);
  module.def("version", &version_text);
  module.def("plain_json", &plain_json, py::arg("text"), py::arg("file"),
             "JSON without the comments that files of Rehearse may have");
  module.def(
      "simulate",
      [](const std::string& text, const std::string& file, const std::vector<std::string>& overrides,
         std::optional<std::uint64_t> seed, const std::vector<std::string>& catalogs) {
        try {
          const py::gil_scoped_release released;
          return simulate_text(text, file, overrides, seed, catalogs);
        } catch (const Interrupted&) { throw py::error_already_set(); }
      },
      py::arg("text"), py::arg("file"), py::arg("overrides"), py::arg("seed"), py::arg("catalogs"),
      "The text of summary.json, and warnings");
}
