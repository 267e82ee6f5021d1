#pragma once
// What connects the machines of a region: a closed set of fabrics. topology.hpp makes links and paths of them.

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// One non-blocking switch.
struct Star {
  friend bool operator==(const Star&, const Star&) = default;
};

/// Leaf switches of `machines_per_leaf` machines. Each leaf has `uplinks` links to the spine, destination d using
/// number d modulo uplinks; together they carry the leaf's NICs' rate divided by `oversubscription`.
struct FatTree {
  int machines_per_leaf = 1;
  double oversubscription = 1;
  int uplinks = 1;
  friend bool operator==(const FatTree&, const FatTree&) = default;
};

/// Groups of routers; routers of a group are all connected by `local` links and every pair of groups by one `global`
/// link, which the routers of a group carry in turn. Minimal routing: at most local, global, local. The last router and
/// the last group are as small as the machines need.
struct Dragonfly {
  int machines_per_router = 1;
  int routers_per_group = 1;
  BytesPerSecond local{};
  BytesPerSecond global{};
  friend bool operator==(const Dragonfly&, const Dragonfly&) = default;
};

/// Machines at the points of a grid with wrap-around, the first dimension counting fastest; dimension-ordered routing,
/// the shorter way round, upwards if both are equal.
struct Torus {
  std::vector<int> dimensions;
  BytesPerSecond link{};
  friend bool operator==(const Torus&, const Torus&) = default;
};

/// NIC r of every machine is on switch r; messages between different rails cross a spine whose link to each switch
/// carries that switch's NICs' rate divided by `oversubscription`.
struct Rail {
  double oversubscription = 1;
  friend bool operator==(const Rail&, const Rail&) = default;
};

/// What connects the machines of a region.
using Fabric = std::variant<Star, FatTree, Dragonfly, Torus, Rail>;

/// Whether no link between the machines' NICs can hold up what these send: one switch, or trees and rails whose links carry what
/// all NICs behind them do.
bool is_nonblocking(const Fabric& fabric);

/// Reads "topology" and its sizes from a scenario's network object. Throws InputError. The sizes of other fabrics are
/// left unread, for the caller's reject_unknown_keys().
Fabric read_fabric(const JsonReader& json);
/// The keys that read_fabric() reads, with their values, defaults included.
Json to_json(const Fabric& fabric);
/// JSON Schema of these keys: an object whose "properties" and "allOf" belong into the schema of the network object.
/// Refers to "#/$defs/rate".
std::string_view fabric_schema();
/// Name and one line of what it is, for each fabric.
std::vector<std::pair<std::string, std::string>> list_fabrics();

}  // namespace rehearse
