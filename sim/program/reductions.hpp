#pragma once
// Which parts of a run are not simulated because they repeat others exactly. lockstep_training.cpp and
// paced_training.cpp say what each of them is, and apply it.

#include "sim/resources/machine_fold.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

struct Reductions {
  bool times_collectives = false;   // of groups that have the links that they cross for themselves
  bool joins_rounds = false;        // of other collectives, as long as nothing else uses the links of their messages
  bool folds_workers = false;       // of the alike workers of a group one runs
  bool folds_machines = false;      // those of a group's first machine run, if their collectives are timed
  bool joins_gpus = false;          // of the workers of a machine one runs, if they send alike
  bool folds_split = false;         // of workers that hold each layer together one runs, if links allow it
  MachineFold fold{};               // machines that stand for all others, where workers hold the model together
  bool fuses_kernels = false;       // of workers that are not recorded
  bool skips_steady_state = false;  // where no activity is recorded; also with servers
  /// Samples reach GPUs as if no collective crossed their links meanwhile: see CopyEngine. Between machines one does
  /// with forward overlap, and that PCIe is shared then is left out: a NIC is far slower. What hosts keep meets them.
  bool copies_are_alone = true;

  /// Whether every message of a step is started on its own, so that their number says how far a step is.
  bool start_each_message() const {
    return !times_collectives && !joins_rounds && !folds_workers && !folds_machines && !joins_gpus && !folds_split &&
           !fold;
  }
  bool operator==(const Reductions&) const = default;
};

/// Of what is simulated nothing is left out in an exact run.
/// `keeps_activity`: every worker's kernels are recorded.
Reductions plan_reductions(const Scenario& scenario, bool is_exact, bool keeps_activity);

/// Whether recording activity takes events that are left out otherwise. Results are the same but for rounding.
bool recording_changes_events(const Scenario& scenario, bool is_exact);

}  // namespace rehearse
