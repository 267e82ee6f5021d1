#include "predictor/detail/step_totals.hpp"

#include <algorithm>

#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// What totals are made from.
struct TotalsOf {
  const Scenario& scenario;
  const Site& site;
  const ProgramSums& chief;
  const Program& program;
  double teams = 0, classes = 0, members = 0;
  double slowest_kernels = 0;
  double latency = 0, port_rate = 0, period = 0;

  const Strategy& strategy() const { return scenario.training.strategy; }
  double count(std::size_t kind) const { return chief.count[kind]; }
  double servers() const { return static_cast<double>(site.servers.size()); }
  const Machine& machine() const { return site.machine(site.workers.front().front().machine); }
  template <class Value>
  double groups_with(const Value& value) const {
    double count = 0;
    for (const Group& group : scenario.groups)
      if (group.role == Role::kWorker && value(group)) count += group.workers();
    return count;
  }
  /// Workers for which the value is not the first group's.
  template <class Value>
  double others(const Value& value) const {
    const auto first = value(scenario.first_workers());
    return groups_with([&](const Group& group) { return value(group) != first; });
  }
};

double most_lag(const Program& program) {
  double lag = 0;
  for (const Node& node : program.nodes) {
    if (const auto* gate = std::get_if<StepsGate>(&node.operation)) lag = std::max<double>(lag, gate->lag);
  }
  return lag;
}

struct TotalRow {
  StepTotal total;
  double (*value)(const TotalsOf&);
};
using Unit = StepTotal::Unit;
const std::vector<TotalRow>& rows() {
  static const std::vector<TotalRow> all = [] {
    std::vector<TotalRow> made{
        {{"kernels_s", Unit::kSeconds}, [](const TotalsOf& t) { return t.chief.kernels; }},
        {{"memory_s", Unit::kSeconds}, [](const TotalsOf& t) { return t.chief.memory; }},
        {{"dispatch_s", Unit::kSeconds}, [](const TotalsOf& t) { return t.chief.host; }},
        {{"slowest_kernels_s", Unit::kSeconds}, [](const TotalsOf& t) { return t.slowest_kernels; }},
        {{"latency_s", Unit::kSeconds}, [](const TotalsOf& t) { return t.latency; }},
        {{"sampling_period_s", Unit::kSeconds},
         [](const TotalsOf& t) { return t.scenario.output.sampling_period.value(); }},
        {{"cycle_s", Unit::kSeconds},
         [](const TotalsOf& t) { return t.strategy().exchange.cycle_time.value_or(Seconds{}).value(); }},
        {{"port_B", Unit::kAmount}, [](const TotalsOf& t) { return t.port_rate * t.period; }},
        {{"workers"}, [](const TotalsOf& t) { return static_cast<double>(t.site.workers.size()); }},
        {{"machines"}, [](const TotalsOf& t) { return static_cast<double>(t.site.machines.size()); }},
        {{"chief_gpus"}, [](const TotalsOf& t) { return static_cast<double>(t.machine().gpus); }},
        {{"chief_workers"}, [](const TotalsOf& t) { return static_cast<double>(t.machine().workers); }},
        {{"chief_servers"}, [](const TotalsOf& t) { return static_cast<double>(t.machine().servers); }},
        {{"servers"}, [](const TotalsOf& t) { return t.servers(); }},
        {{"server_cores"},
         [](const TotalsOf& t) {
           return t.site.servers.empty() ? 0.0 : static_cast<double>(t.site.machine(t.site.servers.front()).cores);
         }},
        {{"teams"}, [](const TotalsOf& t) { return t.teams; }},
        {{"classes_of_workers"}, [](const TotalsOf& t) { return t.classes; }},
        {{"workers_of_a_team", Unit::kAmount}, [](const TotalsOf& t) { return t.members; }},
        {{"is_synchronous", Unit::kPlain}, [](const TotalsOf& t) { return t.strategy().is_synchronous() ? 1.0 : 0.0; }},
        {{"is_in_lockstep", Unit::kPlain, true},
         [](const TotalsOf& t) { return t.strategy().kind->is_in_lockstep() ? 1.0 : 0.0; }},
        {{"is_one_machine", Unit::kPlain}, [](const TotalsOf& t) { return t.site.machines.size() == 1 ? 1.0 : 0.0; }},
        {{"is_by_priority", Unit::kPlain, true},
         [](const TotalsOf& t) { return t.strategy().exchange.order == Order::kPriority ? 1.0 : 0.0; }},
        {{"overlaps_forward", Unit::kPlain, true},
         [](const TotalsOf& t) { return t.strategy().exchange.overlap == Overlap::kForward ? 1.0 : 0.0; }},
        {{"staleness", Unit::kAmount, true}, [](const TotalsOf& t) { return most_lag(t.program); }},
        {{"is_gated", Unit::kPlain, true},
         [](const TotalsOf& t) {
           return t.strategy().kind->servers() != nullptr && t.strategy().kind->servers()->staleness_bound ? 1.0 : 0.0;
         }},
        {{"backup_workers", Unit::kAmount, true},
         [](const TotalsOf& t) { return static_cast<double>(backup_workers(t.scenario)); }},
        {{"window_steps"},
         [](const TotalsOf& t) {
           const Training& training = t.scenario.training;
           const double sharing = training.strategy.is_synchronous() ? 1 : t.scenario.count(Role::kWorker);
           return std::max(1.0, static_cast<double>(training.steps - training.warmup_steps) / sharing);
         }},
        {{"joining_workers", Unit::kAmount, true},
         [](const TotalsOf& t) { return t.groups_with([](const Group& g) { return g.joins_at > Seconds{}; }); }},
        {{"joins_at_s", Unit::kSeconds},
         [](const TotalsOf& t) {
           double at = 0;
           for (const Group& group : t.scenario.groups) at = std::max(at, group.joins_at.value());
           return at;
         }},
        {{"leaving_workers", Unit::kAmount, true},
         [](const TotalsOf& t) { return t.groups_with([](const Group& g) { return g.leaves_at.has_value(); }); }},
        {{"leaves_at_s", Unit::kSeconds},
         [](const TotalsOf& t) {
           double at = 0;
           for (const Group& group : t.scenario.groups)
             if (group.leaves_at) at = at > 0 ? std::min(at, group.leaves_at->value()) : group.leaves_at->value();
           return at;
         }},
        {{"other_batch_workers", Unit::kAmount, true},
         [](const TotalsOf& t) { return t.others([](const Group& g) { return g.batch; }); }},
        {{"other_gpu_workers", Unit::kAmount, true},
         [](const TotalsOf& t) { return t.others([](const Group& g) { return g.accelerator->name; }); }},
        {{"checkpoint_stall_s", Unit::kSeconds},
         [](const TotalsOf& t) {
           const auto times = checkpoint_times(t.scenario);
           return times ? times->stall.value() : 0.0;
         }},
        {{"checkpoints_of_window", Unit::kAmount, true},
         [](const TotalsOf& t) {
           const auto& checkpoint = t.scenario.training.checkpoint;
           if (!checkpoint) return 0.0;
           const auto steps = static_cast<double>(t.scenario.training.steps);
           if (checkpoint->every_steps > 0) return steps / static_cast<double>(checkpoint->every_steps);
           const auto interval = checkpoint_interval(t.scenario);
           return interval ? steps * t.period / interval->value() : 1.0;
         }},
        {{"step_time_variation", Unit::kPlain, true},
         [](const TotalsOf& t) { return t.scenario.training.step_time_variation; }},
        {{"share_variation", Unit::kPlain, true},
         [](const TotalsOf& t) { return t.scenario.training.share_variation; }},
        {{"start_interval_s", Unit::kSeconds, true},
         [](const TotalsOf& t) { return t.scenario.training.start_interval.value(); }},
        {{"reading_interval_s", Unit::kSeconds, true},
         [](const TotalsOf& t) { return t.scenario.output.reading_interval.value(); }},
        {{"loses_packets", Unit::kPlain, true},
         [](const TotalsOf& t) { return t.scenario.loses_packets() ? 1.0 : 0.0; }},
        {{"turn_B", Unit::kAmount, true}, [](const TotalsOf& t) { return as_double(t.scenario.tcp.turn); }},
    };
    return made;
  }();
  return all;
}

/// How many operations of each kind the chief's program has: mechanisms, of a kind that training lacks nothing is known.
constexpr std::array<const char*, kStepKinds> kKindNames{
    "delays",          "copies",         "begin_kernels",     "kernels",         "chains",         "messages_sent",
    "notifications",   "variables_read", "gradients_applied", "gradients_added", "models_fetched", "collectives",
    "gates",           "step_gates",     "updates",           "fences",          "next_steps",     "all_reduces",
    "reduce_scatters", "all_gathers",    "all_to_alls",       "broadcasts",      "shifts",         "messages_received"};

}  // namespace

std::vector<double> totals_of(StepTeams& teams, double period) {
  double members = 0, slowest = 0, count = 0;
  for (const Team& team : teams.teams()) {
    count += team.like;
    members = std::max<double>(members, static_cast<double>(team.workers().size()));
    for (const int member : team.workers()) slowest = std::max(slowest, teams.sums(member).kernels);
  }
  const int chief = teams.teams().front().workers().front();
  const TotalsOf of{.scenario = teams.scenario(),
                    .site = teams.site(),
                    .chief = teams.sums(chief),
                    .program = teams.program(chief),
                    .teams = count,
                    .classes = static_cast<double>(teams.teams().size()),
                    .members = members,
                    .slowest_kernels = slowest,
                    .latency = teams.longest_latency(chief),
                    .port_rate = teams.port_rate(),
                    .period = period};
  std::vector<double> totals;
  for (const TotalRow& row : rows()) totals.push_back(row.value(of));
  for (std::size_t kind = 0; kind < kStepKinds; ++kind) totals.push_back(of.count(kind));
  return totals;
}

std::span<const StepTotal> step_totals() {
  static const std::vector<StepTotal> all = [] {
    std::vector<StepTotal> totals;
    for (const TotalRow& row : rows()) totals.push_back(row.total);
    for (const char* kind : kKindNames) totals.push_back({kind, Unit::kAmount, true});
    return totals;
  }();
  return all;
}

}  // namespace rehearse
