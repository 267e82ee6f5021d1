#pragma once
// Machines of which some stand for all others, as these do the same at the same time; and the links between them.

#include <map>
#include <vector>

#include "sim/base/units.hpp"

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

/// Links between machines of which one stands for others: where messages of machines that stand for others cross any of them, they
/// cross this one, at a rate of which as much is left for each of these messages as there is for one of all.
struct LinkFold {
  std::vector<int> like;  // [links] the one that stands for it, those of machines included; empty: each for itself
  std::map<int, BytesPerSecond> rates;  // of those that stand for others, or for a share of what crosses them

  explicit operator bool() const { return !like.empty(); }
};

}  // namespace rehearse
