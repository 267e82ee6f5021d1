#pragma once
// What the verbs that read traces have in common.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/app/verb.hpp"
#include "sim/plan/recorded_gpu.hpp"
#include "sim/plan/replay_report.hpp"
#include "sim/training/compile_recorded.hpp"
#include "workloads/importers/importer.hpp"
#include "workloads/traces/kineto.hpp"

namespace rehearse {

/// --steps; read_steps() understands "3" and "3-5".
void add_steps(Options options, std::string& steps);
std::optional<StepRange> read_steps(const std::string& text);

/// What if recorded work took another time; as typed.
struct WorkChange {
  std::vector<std::string> factors;
  std::string gpu;

  bool is_empty() const { return factors.empty() && gpu.empty(); }
};
void add_work_change(Options options, WorkChange& change);

struct ChangedWork {
  RecordedChange change;
  std::string gpu;                   // of the catalog, on which kernels then run; empty: that of the trace is not in it
  std::vector<std::string> remarks;  // what was done
  std::optional<UnscaledShare> unscaled = {};  // on another GPU than the recorded one
};
/// Throws InputError.
ChangedWork read_work_change(const WorkChange& change, const RecordedJob& job, const Catalog& catalog);

/// Of each factor for a class of kernels of which the traces have none, that it changes nothing.
std::vector<std::string> idle_factors(const WorkChange& change, const ReplayReport& report);

/// "1.500 ms".
std::string in_milliseconds(Seconds time);

/// "NAME=VALUE" in its parts. Throws InputError.
std::pair<std::string, std::string> split_setting(const std::string& option, const std::string& text);

/// How a trace becomes a model file.
struct TraceImport {
  WorkChange change;
  std::string steps;      // as typed
  std::string variables;  // model of the catalog, or a file: whose gradients the recorded ones are
  int batch = 0;          // of a worker; 0: not stated
  bool scales_with_batch = false;
  bool is_forced = false;
};
void add_trace_import(Options options, TraceImport& import);

/// Traces of the ranks of one job as a model of what a rank computes in a step (sim/plan/recorded_model.hpp). Throws
/// InputError, also if the replay of the traces is not good enough for what-ifs, unless that is forced.
ImportedModel import_traces(const std::vector<std::filesystem::path>& files, const TraceImport& import,
                            const CommonOptions& common);

}  // namespace rehearse
