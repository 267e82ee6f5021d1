#pragma once
// Operator graphs of any size become graphs of a fixed number of groups, as in Driple: asynchronous fluid communities,
// whose operators are then pooled.
// Sources: Pares et al., "Fluid Communities", Complex Networks 2017; Yang et al., "Prediction of the Resource
// Consumption of Distributed Deep Learning Systems", Proc. ACM Meas. Anal. Comput. Syst. 6(2), art. 29, 2022. Checked
// against tests/predictor/data/driple/grouping_cases.json.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rehearse {

/// The Mersenne Twister MT19937 with the seeding and the derived draws of Python's `random.Random(seed)`, so that a
/// grouping equals the published one. Source: Matsumoto and Nishimura, ACM TOMACS 8(1), 1998; seeding by array, 2002.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);

  /// 32 random bits: getrandbits(32).
  std::uint32_t bits();
  /// A number in 0 .. n-1: the upper bit_length(n) bits of a draw, drawn again until below n. n >= 1.
  std::uint32_t below(std::uint32_t n);
  /// random.shuffle(): for i = size-1 .. 1, swap elements i and below(i + 1).
  void shuffle(std::vector<std::uint32_t>& values);

 private:
  void refill();

  std::array<std::uint32_t, 624> state_{};
  std::size_t next_ = 0;
};

/// Operators and the undirected edges between them. An edge may repeat or join an operator with itself: the grouping
/// does not change. Neighbours count in the order of their first edge.
struct OperatorNetwork {
  struct Operator {
    std::int64_t tensor_size = 0;  // elements of the first output, 0 if unknown
    double type_frequency = 0.0;   // relative frequency of the operator's type
  };
  std::vector<Operator> operators;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
};

/// The largest connected part of `network` (the first of equal ones) without operators that have no edge; operators
/// keep their order. Empty if no operator has an edge. InputError if an edge leads to no operator.
OperatorNetwork largest_component(const OperatorNetwork& network);

/// A graph of groups: group features [groups][3] = (sum of tensor sizes, number of operators, sum of type frequencies);
/// `edges` (i < j) are distinct and join different groups; group_of [operators].
struct GroupedGraph {
  std::vector<std::array<double, 3>> features;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::vector<std::uint32_t> group_of;
};

/// Fluid communities of a connected network, and their sums. The operators are shuffled and the first `groups` become
/// one community each, of density 1. Then, in sweeps over newly shuffled operators, each joins the community with the
/// largest sum of densities 1/size over itself and its distinct neighbours (ties within 1e-4: its own, else one drawn
/// among them in the order of their appearance), until a sweep changes nothing or 101 sweeps have run. Groups are
/// numbered by the order in which their operators first got a community.
/// InputError if there are fewer operators than `groups`, `groups` < 1, or the network is not connected.
GroupedGraph group_operators(const OperatorNetwork& network, std::size_t groups = 100, std::uint64_t seed = 42);

}  // namespace rehearse
