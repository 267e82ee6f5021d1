#pragma once
// Where each worker stands in a training that is parallel in several ways, by arithmetic: its coordinates, and with
// whom it shares all of them but one.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace rehearse {

struct Scenario;

/// What workers along it differ in.
enum class Axis : std::uint8_t {
  kTensor,          // the part of each product
  kHeads,           // the positions, but in attention the heads
  kPositions,       // the positions
  kPipeline,        // the stage of the model
  kData,            // the samples; of these workers each may keep its part of the states
  kReplica,         // the samples, where those along kData share states among themselves
  kExperts,         // of a mixture, in expert_grid(), on one machine where tokens go once to each
  kExpertMachines,  // .. and on the machines
};

/// Workers that differ in these alone have gradients of the same variables to add up, and may share states.
inline constexpr std::array kSharingAxes{Axis::kHeads, Axis::kPositions, Axis::kData};

/// The workers of a cluster as a grid with an axis for each kind of parallelism. The coordinates of worker i are the
/// digits of i in the mixed radix of the degrees, the first axis being the fastest:
///   coordinate of axis a = (i / product of the degrees before a) mod degree of a
class RankGrid {
 public:
  struct Degree {
    Axis axis = Axis::kData;
    int count = 1;  // workers along it
  };

  RankGrid(std::initializer_list<Degree> degrees) : RankGrid{std::vector<Degree>{degrees}} {}
  explicit RankGrid(const std::vector<Degree>& degrees) {
    for (const Degree& degree : degrees) {
      axes_.push_back({degree.axis, degree.count, workers_});
      workers_ *= degree.count;
    }
  }

  /// All of them: the product of the degrees.
  int workers() const { return workers_; }
  /// Workers along the axis; 1 if there is none.
  int degree(Axis axis) const {
    const Line* line = find(axis);
    return line == nullptr ? 1 : line->count;
  }
  /// Along all of the axes.
  int degree(std::span<const Axis> axes) const {
    int count = 1;
    for (const Axis axis : axes) count *= degree(axis);
    return count;
  }
  int coordinate(int worker, Axis axis) const {
    const Line* line = find(axis);
    return line == nullptr ? 0 : worker / line->stride % line->count;
  }
  /// The worker with this coordinate in the axis, and all others those of `worker`.
  int moved(int worker, Axis axis, int coordinate) const {
    const Line* line = find(axis);
    return line == nullptr ? worker : worker + (coordinate - this->coordinate(worker, axis)) * line->stride;
  }
  /// Those that differ from `worker` in the axis alone, itself included, in the order of their coordinates.
  std::vector<int> along(Axis axis, int worker) const {
    std::vector<int> workers;
    for (int c = 0; c < degree(axis); ++c) workers.push_back(moved(worker, axis, c));
    return workers;
  }
  /// Those that differ from `worker` in some of the axes alone, the first axis being the fastest.
  std::vector<int> along(std::span<const Axis> axes, int worker) const {
    std::vector<int> workers{worker};
    for (const Axis axis : axes) {
      const std::vector<int> before = std::exchange(workers, {});
      for (int c = 0; c < degree(axis); ++c)
        for (const int one : before) workers.push_back(moved(one, axis, c));
    }
    return workers;
  }
  bool is_first(std::span<const Axis> axes, int worker) const {
    return std::ranges::all_of(axes, [&](Axis axis) { return coordinate(worker, axis) == 0; });
  }

 private:
  struct Line {
    Axis axis;
    int count;
    int stride;  // between neighbours along it
  };
  const Line* find(Axis axis) const {
    for (const Line& line : axes_)
      if (line.axis == axis) return &line;
    return nullptr;
  }

  std::vector<Line> axes_;  // the fastest first
  int workers_ = 1;
};

/// That of the scenario's workers: some hold the model together (StrategyKind::model_axes()), and their likes are data
/// parallel. They stand in the strategy's rank_order().
RankGrid rank_grid(const Scenario& scenario);

/// The same workers as they share the experts of mixtures (ExpertSplit): those that hold each expert together, that have other
/// experts, and, along kData, that have the same; in as many stages.
RankGrid expert_grid(const Scenario& scenario);

}  // namespace rehearse
