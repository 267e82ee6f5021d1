#pragma once
// A simulation as a text: everything that its result depends on, so that whoever has this program can run it, in
// another process or on another machine, and gets the same bytes.

#include <string>

#include "sim/base/json.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// What a job does with its scenario. Known to run_job() by its name, so it is a constant of a source file:
///   const Verb kSimulate{"simulate", [](Scenario scenario, const JsonReader& options) { ...; return result; }};
/// What it throws is the error of the job.
class Verb {
 public:
  using Function = std::string (*)(Scenario scenario, const JsonReader& options);
  Verb(const char* name, Function function);

  /// {"verb": its name, "options": the verb's own, "file", "set_by", "places" and "warnings": what messages and summary
  /// say of the scenario, "scenario": its effective text}. What has been changed in `scenario` since it was read is not
  /// part of the job.
  std::string job(const Scenario& scenario, const Json& options) const;
  std::string job(const Scenario& scenario) const;

 private:
  std::string name_;
};

/// Runs the job, in this process: SimGrid simulates at most once in each. Throws InputError "job: ..." if `text` states
/// none, otherwise what its verb throws.
std::string run_job(const std::string& text);

}  // namespace rehearse
