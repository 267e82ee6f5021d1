#pragma once
// The workers of a compiled step, by what they do: which wait for one another, what each asks resources for, and how busy those are.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "predictor/described_step.hpp"
#include "predictor/step_schedule.hpp"
#include "sim/program/collective_methods.hpp"
#include "sim/resources/paths_only.hpp"
#include "sim/training/cluster_step.hpp"

namespace rehearse {

inline constexpr double kTiny = 1e-12;  // seconds

/// Why messages cross links: others of the same purpose do so at the same time.
enum class Purpose { kReceive, kSend, kCopyIn, kCopyOut };
using ByPurpose = std::array<double, 4>;

/// What a team, or all of them, ask of links and cores in a step.
struct Asked {
  std::map<int, ByPurpose> links;  // bytes
  std::map<int, double> pools;     // seconds of cores
};

inline double of_all(const ByPurpose& bytes) { return bytes[0] + bytes[1] + bytes[2] + bytes[3]; }

/// What a worker's program asks for, by connection and so on.
struct ProgramSums {
  std::map<int, double> connections;         // bytes
  std::array<double, 2> copies{};            // bytes
  std::map<int, double> servers;             // seconds of cores
  double additions = 0, fetched = 0;         // seconds of cores of its own machine; bytes
  double kernels = 0, memory = 0, host = 0;  // seconds
  std::array<double, kStepKinds> count{};
};

/// The kind of an operation, as StepNode has it.
std::size_t kind_of(const Operation& operation, bool is_received);

/// Workers that wait for one another, one of several such teams that do the same.
struct Team {
  ScheduledTeam scheduled;
  std::vector<const Program*> programs;  // [workers]
  double like = 1;                       // teams that it stands for
  Asked asked;
  /// [workers][connections], [workers] of copies and of what is fetched: links of the chief's machine that what they carry
  /// enters or leaves it by, over all teams that it stands for.
  std::vector<std::vector<std::array<double, 2>>> crossings;
  std::vector<std::array<std::array<double, 2>, 3>> own_crossings;  // copies in, copies out, fetched
  std::vector<bool> is_chiefs;                                      // [workers] on the chief's machine

  const std::vector<int>& workers() const { return scheduled.workers; }
  const Operation& operation(const Scheduled& one) const { return programs[at(one.worker)]->operation(one.operation); }
};

class StepTeams {
 public:
  /// The scenario has to outlive it. Throws what StepCompiler does.
  explicit StepTeams(const Scenario& scenario);

  const Scenario& scenario() const { return scenario_; }
  const Site& site() const { return site_; }
  const WorkerStep& step_of(int worker) const { return step_.of(worker); }
  /// One of each class, with how many it stands for; the chief's first.
  std::vector<Team>& teams() { return teams_; }
  const std::vector<Team>& teams() const { return teams_; }
  const Asked& all() const { return all_; }  // what all workers ask for
  double port_rate() const { return port_rate_; }
  bool enters(int link) const { return in_.contains(link); }  // the chief's machine
  bool leaves(int link) const { return out_.contains(link); }
  double rate_of(int link) const { return network_.topology().links()[at(link)].rate.value(); }
  double longest_latency(int worker) const;
  double latency(int worker, int connection) const {
    return network_.path(paths_[at(worker)][at(connection)]).latency.value();
  }
  const Program& program(int worker);
  const ProgramSums& sums(int worker);
  bool is_received(int worker, int connection) const;
  Bytes wire_bytes(int worker, const Send& send) const;
  double cores_of(int pool) const;
  /// Seconds that no step can be shorter than, as all workers together ask for so much.
  double bound() const;
  /// So many steps of the team, with resources as busy as in steps of `period` seconds.
  StepSchedule schedule(Team& team, Pace pace, double period, int steps);
  /// Bytes of the collective that enter and leave the chief's machine.
  std::array<double, 2> crossing(int worker, const Collective& collective);

 private:
  bool binds(int link) const { return !network_.topology().links()[at(link)].never_binds; }
  /// Each distinct path of the copies of a worker's GPUs.
  PathIndex copy_path(Endpoint gpu, CopyDirection direction);
  /// From a worker on another machine, if there is one.
  std::optional<Endpoint> partner(int worker) const;
  std::optional<PathIndex> fetch_path(int worker);
  void ask(int worker, Asked& asked);
  /// Servers of a machine share its cores, unless their threads are told apart.
  int pool_of(int server) const;
  /// One team of each class; the chief's is one by itself.
  void find_teams();
  std::array<double, 2> crossing(PathIndex path) const;
  void add_crossings(Team& team, const std::vector<int>& members);
  /// How many times as long a resource takes that is asked for `own` seconds by the team, for `at_once` by all for the purposes that it
  /// has there, and for `all` by all.
  double slowdown(double own, double at_once, double all, Pace pace, double period) const;
  template <class Add>
  void each_load(int worker, const Add& add);

  const Scenario& scenario_;
  Site site_;
  PathsOnly network_;
  StepCompiler compiler_;
  ClusterStep step_;
  MachineIndex chief_ = 0;
  bool is_one_machine_ = false;
  std::set<int> in_, out_;                     // links by which something enters and leaves the chief's machine
  double port_rate_ = 0;                       // bytes/s of all of one direction
  std::vector<std::vector<Wire>> wires_;       // [workers]
  std::vector<std::vector<PathIndex>> paths_;  // [workers]
  std::map<const Program*, ProgramSums> sums_;
  std::vector<Team> teams_;  // the chief's first
  Asked all_;
  std::map<std::pair<int, int>, std::unique_ptr<FastestCollective>> collectives_;  // by group and kind
  std::map<std::tuple<int, int, Bytes>, std::array<double, 2>> crossings_;         // by group, kind and payload
};

}  // namespace rehearse
