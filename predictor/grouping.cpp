#include "predictor/grouping.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "sim/base/errors.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kWords = 624, kShift = 397;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr double kTie = 1e-4;
constexpr int kSweeps = 101;

using Neighbours = std::vector<std::vector<std::uint32_t>>;

/// Distinct neighbours of every operator, in the order of their first edge; a self loop makes an operator its own.
Neighbours neighbours_of(const OperatorNetwork& network) {
  const std::size_t size = network.operators.size();
  if (size >= kNone) throw InputError{"an operator graph of more than 2^32 operators"};
  Neighbours neighbours(size);
  std::set<std::pair<std::uint32_t, std::uint32_t>> known;
  for (const auto& [from, to] : network.edges) {
    if (from >= size || to >= size)
      throw InputError{"an edge joins operators " + std::to_string(from) + " and " + std::to_string(to) + " of " +
                       std::to_string(size)};
    if (!known.insert(std::minmax(from, to)).second) continue;
    neighbours[from].push_back(to);
    if (from != to) neighbours[to].push_back(from);
  }
  return neighbours;
}

/// Number of each operator's component, numbered by their first operators.
std::vector<std::uint32_t> components_of(const Neighbours& neighbours, std::uint32_t& count) {
  std::vector<std::uint32_t> component(neighbours.size(), kNone);
  std::vector<std::uint32_t> open;
  count = 0;
  for (std::uint32_t start = 0; start < neighbours.size(); ++start) {
    if (component[start] != kNone) continue;
    component[start] = count;
    open.push_back(start);
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      for (const std::uint32_t other : neighbours[node]) {
        if (component[other] != kNone) continue;
        component[other] = count;
        open.push_back(other);
      }
    }
    ++count;
  }
  return component;
}

/// The state of the communities while they flow.
struct Communities {
  std::vector<std::uint32_t> of;        // [operators], kNone before the first
  std::vector<std::uint32_t> sizes;     // [communities]
  std::vector<std::uint32_t> in_order;  // operators, as they first got a community
  std::vector<double> scores;           // [communities], scratch
  std::vector<std::uint32_t> seen;      // communities with a score, in the order of their appearance

  double density(std::uint32_t community) const { return 1.0 / static_cast<double>(sizes[community]); }

  void score(std::uint32_t node) {
    const std::uint32_t community = of[node];
    if (community == kNone) return;
    if (std::find(seen.begin(), seen.end(), community) == seen.end()) {
      seen.push_back(community);
      scores[community] = 0.0;
    }
    scores[community] += density(community);
  }

  /// Whether `node` has moved.
  bool settle(std::uint32_t node, const std::vector<std::uint32_t>& neighbours, PythonRandom& random) {
    seen.clear();
    score(node);
    for (const std::uint32_t other : neighbours) score(other);
    if (seen.empty()) return false;
    double best = 0.0;
    for (const std::uint32_t community : seen) best = std::max(best, scores[community]);
    std::erase_if(seen, [&](std::uint32_t community) { return best - scores[community] >= kTie; });
    if (std::find(seen.begin(), seen.end(), of[node]) != seen.end()) return false;
    const std::uint32_t chosen = seen[random.below(static_cast<std::uint32_t>(seen.size()))];
    if (of[node] == kNone)
      in_order.push_back(node);
    else
      --sizes[of[node]];
    of[node] = chosen;
    ++sizes[chosen];
    return true;
  }
};

}  // namespace

PythonRandom::PythonRandom(std::uint64_t seed) {
  state_[0] = 19650218U;
  for (std::uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30U)) + i;
  std::vector<std::uint32_t> key{static_cast<std::uint32_t>(seed)};
  if (seed >> 32U) key.push_back(static_cast<std::uint32_t>(seed >> 32U));
  std::size_t i = 1, j = 0;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < kWords; ++k) {
    state_[i] =
        (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30U)) * 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
    j = (j + 1) % key.size();
    advance();
  }
  for (std::size_t k = 1; k < kWords; ++k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30U)) * 1566083941U)) - static_cast<std::uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
  next_ = kWords;
}

void PythonRandom::refill() {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint32_t mixed = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7fffffffU);
    state_[i] = state_[(i + kShift) % kWords] ^ (mixed >> 1U) ^ ((mixed & 1U) ? 0x9908b0dfU : 0U);
  }
  next_ = 0;
}

std::uint32_t PythonRandom::bits() {
  if (next_ == kWords) refill();
  std::uint32_t word = state_[next_++];
  word ^= word >> 11U;
  word ^= (word << 7U) & 0x9d2c5680U;
  word ^= (word << 15U) & 0xefc60000U;
  return word ^ (word >> 18U);
}

std::uint32_t PythonRandom::below(std::uint32_t n) {
  const int shift = 32 - static_cast<int>(std::bit_width(n));
  std::uint32_t value = bits() >> shift;
  while (value >= n) value = bits() >> shift;
  return value;
}

void PythonRandom::shuffle(std::vector<std::uint32_t>& values) {
  for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[below(static_cast<std::uint32_t>(i + 1))]);
}

OperatorNetwork largest_component(const OperatorNetwork& network) {
  std::uint32_t count = 0;
  const Neighbours neighbours = neighbours_of(network);
  const std::vector<std::uint32_t> component = components_of(neighbours, count);
  std::vector<std::size_t> sizes(count, 0);
  for (std::size_t node = 0; node < component.size(); ++node)
    if (!neighbours[node].empty()) ++sizes[component[node]];
  const auto largest = static_cast<std::uint32_t>(std::max_element(sizes.begin(), sizes.end()) - sizes.begin());

  OperatorNetwork kept;
  std::vector<std::uint32_t> renumbered(component.size(), kNone);
  for (std::size_t node = 0; node < component.size(); ++node) {
    if (component[node] != largest || neighbours[node].empty()) continue;
    renumbered[node] = static_cast<std::uint32_t>(kept.operators.size());
    kept.operators.push_back(network.operators[node]);
  }
  for (const auto& [from, to] : network.edges)
    if (renumbered[from] != kNone) kept.edges.emplace_back(renumbered[from], renumbered[to]);
  return kept;
}

GroupedGraph group_operators(const OperatorNetwork& network, std::size_t groups, std::uint64_t seed) {
  const std::size_t size = network.operators.size();
  if (groups < 1) throw InputError{"expected at least 1 group of operators"};
  if (size < groups)
    throw InputError{"the operator graph has " + std::to_string(size) + " connected operators: too few for " +
                     std::to_string(groups) + " groups"};
  const Neighbours neighbours = neighbours_of(network);
  std::uint32_t parts = 0;
  components_of(neighbours, parts);
  if (parts != 1)
    throw InputError{"the operator graph has " + std::to_string(parts) +
                     " parts without edge between them; expected 1"};

  PythonRandom random{seed};
  std::vector<std::uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<std::uint32_t> order = all;
  random.shuffle(order);
  Communities communities{.of = std::vector<std::uint32_t>(size, kNone),
                          .sizes = std::vector<std::uint32_t>(groups, 1),
                          .in_order = {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(groups)},
                          .scores = std::vector<double>(groups)};
  for (std::uint32_t community = 0; community < groups; ++community) communities.of[order[community]] = community;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    order = all;
    random.shuffle(order);
    bool moved = false;
    for (const std::uint32_t node : order) moved |= communities.settle(node, neighbours[node], random);
    if (!moved) break;
  }

  std::vector<std::uint32_t> number(groups, kNone);
  std::uint32_t numbered = 0;
  for (const std::uint32_t node : communities.in_order) {
    std::uint32_t& group = number[communities.of[node]];
    if (group == kNone) group = numbered++;
  }
  GroupedGraph grouped;
  grouped.features.resize(groups, {0.0, 0.0, 0.0});
  for (std::size_t node = 0; node < size; ++node) {
    const std::uint32_t group = number[communities.of[node]];
    grouped.group_of.push_back(group);
    grouped.features[group][0] += static_cast<double>(network.operators[node].tensor_size);
    grouped.features[group][1] += 1.0;
    grouped.features[group][2] += network.operators[node].type_frequency;
  }
  for (const auto& [from, to] : network.edges) {
    const auto [low, high] = std::minmax(grouped.group_of[from], grouped.group_of[to]);
    if (low != high) grouped.edges.emplace_back(low, high);
  }
  std::sort(grouped.edges.begin(), grouped.edges.end());
  grouped.edges.erase(std::unique(grouped.edges.begin(), grouped.edges.end()), grouped.edges.end());
  return grouped;
}

}  // namespace rehearse
