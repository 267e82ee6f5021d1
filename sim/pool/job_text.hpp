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

  /// The job of a scenario that has been read and not changed since.
  PoolJob job(Scenario scenario, Json options) const;
  PoolJob job(Scenario scenario) const;
  /// The job of an effective scenario that was changed, as if it were read from the file: read where it runs.
  PoolJob job(Json effective, std::string file_name, Json options) const;

  const std::string& name() const { return name_; }
  /// Does it, in this process.
  std::string run(Scenario scenario, const JsonReader& options) const {
    return function_(std::move(scenario), options);
  }

 private:
  std::string name_;
  Function function_;
};

/// A simulation that has not run: values, which become a text only where it has to travel.
class PoolJob {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): who has a text has the job
  PoolJob(std::string text) : what_{std::move(text)} {}

  /// {"verb": its name, "options": the verb's own, "file", "set_by", "places" and "warnings": what messages and summary
  /// say of the scenario, "scenario": its effective text}. Of a batch an array of these.
  std::string text() const;
  /// What run_job() says of the text, without making it. Once, for all copies.
  std::string run() &&;

 private:
  friend class Verb;
  friend PoolJob batch_of(std::vector<PoolJob> jobs);

  struct Read {
    const Verb* verb;
    std::shared_ptr<Scenario> scenario;  // run once
    SharedJson options;
  };
  struct Changed {
    const Verb* verb;
    SharedJson effective;
    std::string file_name;
    SharedJson options;
  };
  using Batch = std::vector<PoolJob>;
  explicit PoolJob(std::variant<std::string, Read, Changed, Batch> what) : what_{std::move(what)} {}

  std::variant<std::string, Read, Changed, Batch> what_;
};

/// Jobs of a verb that may run more than once in a process, as one job. Its result is a JSON array of what each gave:
/// {"result": text} or {"error": text}.
PoolJob batch_of(std::vector<PoolJob> jobs);

/// Runs the job, in this process: SimGrid simulates at most once in each. Throws InputError "job: ..." if `text` states
/// none, otherwise what its verb throws.
std::string run_job(const std::string& text);

}  // namespace rehearse
