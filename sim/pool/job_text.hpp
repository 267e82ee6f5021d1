#pragma once
// A simulation as a text: everything that its result depends on, so that whoever has this program can run it, in
// another process or on another machine, and gets the same bytes.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

class PoolJob;

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
  /// The job of an effective scenario that was changed, as if it were read from the file.
  std::string job(const Json& effective, const std::string& file_name, const Json& options) const;
  /// The job of a scenario that has been read and not changed since: as a text only where it has to travel.
  PoolJob job(Scenario&& scenario, Json options) const;
  PoolJob job(Scenario&& scenario) const;

  /// Does it, in this process.
  std::string run(Scenario scenario, const JsonReader& options) const {
    return function_(std::move(scenario), options);
  }

 private:
  std::string name_;
  Function function_;
};

/// A simulation that has not run: its text, or what the text would be read to.
class PoolJob {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): most jobs are texts from the beginning
  PoolJob(std::string text) : what_{std::move(text)} {}
  PoolJob(const Verb& verb, Scenario&& scenario, Json&& options);

  std::string text() const;
  /// What run_job() says of the text, without making it.
  std::string run() &&;

 private:
  struct Read {
    const Verb* verb;
    std::shared_ptr<Scenario> scenario;  // run once
    std::shared_ptr<const Json> options;
  };
  std::variant<std::string, Read> what_;
};

/// Jobs of a verb that may run more than once in a process, as one job. Its result is a JSON array of what each gave:
/// {"result": text} or {"error": text}.
std::string batch_of(const std::vector<std::string>& jobs);

/// Runs the job, in this process: SimGrid simulates at most once in each. Throws InputError "job: ..." if `text` states
/// none, otherwise what its verb throws.
std::string run_job(const std::string& text);

}  // namespace rehearse
