#pragma once
// Machines of which some stand for all others, as these do the same at the same time.

namespace rehearse {

/// Machines follow one another in circles of `span`, which are of blocks of `block`: in each circle the first block stands for
/// the others; with `block` 0 each for itself. Of as many GPUs of a machine as `alike` one sends over its NICs for all.
struct MachineFold {
  int block = 0, span = 0;
  int alike = 1;
  /// Whether `alike` are all GPUs of a machine, what they send one another included: the first one runs for all, and what it sends to
  /// any of a machine's goes to the first one there.
  bool joins_gpus = false;

  explicit operator bool() const { return block > 0 || alike > 1; }
  bool operator==(const MachineFold&) const = default;

  /// The machine that stands for this one.
  int standing_for(int machine) const {
    return block > 0 ? machine - machine % span + machine % span % block : machine;
  }
  bool stands(int machine) const { return standing_for(machine) == machine; }
  /// That of the same circle, so many further.
  int shifted(int machine, int by) const { return machine - machine % span + (machine % span + by) % span; }
};

}  // namespace rehearse
