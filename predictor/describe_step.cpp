#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "predictor/described_step.hpp"
#include "predictor/detail/step_teams.hpp"
#include "predictor/detail/step_totals.hpp"
#include "predictor/shown_steps.hpp"
#include "sim/base/overloaded.hpp"

namespace rehearse {

namespace {

class Describer {
 public:
  explicit Describer(const Scenario& scenario) : teams_{scenario}, scenario_{scenario} {
    if (scenario.training.strategy.exchange.overlap == Overlap::kForward) steps_ = 3;
  }

  DescribedStep describe() {
    DescribedStep described;
    const Strategy& strategy = scenario_.training.strategy;
    described.waits_for_all = strategy.is_synchronous();
    lay_out(Pace::kAlone);
    keep(Pace::kAlone, described);
    const double alone = period_;
    fill(described.timelines[0]);
    lay_out(Pace::kAtOnce);
    keep(Pace::kAtOnce, described);
    if (described.waits_for_all) finish(described);
    period_ = std::max(alone, teams_.bound());
    lay_out(Pace::kMean);
    keep(Pace::kMean, described);
    if (!described.waits_for_all) finish(described);
    return described;
  }

 private:
  /// Lays out the steps of each class of teams, and sets the period: of the slowest team where all wait for it.
  void lay_out(Pace pace) {
    std::vector<StepSchedule> schedules;
    double slowest = 0;
    windows_.clear();
    for (Team& team : teams_.teams()) {
      StepSchedule schedule = teams_.schedule(team, pace, period_, steps_);
      double from = 0, to = 0;
      for (const std::vector<double>& ends : schedule.ends) {
        if (ends.size() < at(steps_)) continue;
        from = std::max(from, ends[at(steps_ - 2)]);
        to = std::max(to, ends[at(steps_ - 1)]);
      }
      windows_.push_back({from, std::max(to, from + kTiny)});
      slowest = std::max(slowest, to - from);
      schedules.push_back(std::move(schedule));
    }
    const double own = windows_.front()[1] - windows_.front()[0];
    period_ = scenario_.training.strategy.is_synchronous() ? slowest : own;
    if (pace == Pace::kMean) period_ = std::max(period_, teams_.bound());
    schedules_ = std::move(schedules);
    find_shown();
  }

  /// What of it the chief's machine shows.
  void find_shown() {
    shown_ = {};
    shown_.period = period_;
    double members = 0;
    for (const Team& team : teams_.teams())
      members += team.like * static_cast<double>(std::count(team.is_chiefs.begin(), team.is_chiefs.end(), true));
    for (std::size_t t = 0; t < teams_.teams().size(); ++t) add_shown(t, std::max(1.0, members));
  }

  void add_shown(std::size_t t, double members) {
    const Team& team = teams_.teams()[t];
    const auto [from, to] = windows_[t];
    const bool waits = scenario_.training.strategy.is_synchronous();
    const double scale = waits ? 1 : period_ / (to - from);
    for (const Scheduled& one : schedules_[t].operations) {
      if (one.end <= from || one.start >= to || one.end <= one.start) continue;
      const double start = (std::max(one.start, from) - from) * scale, end = (std::min(one.end, to) - from) * scale;
      const double share = (end - start) / ((one.end - one.start) * scale);
      const auto w = at(one.worker);
      const Operation& operation = team.operation(one);
      const auto carry = [&](const std::array<double, 2>& crossings, double bytes, double begin, double stop) {
        if (crossings[0] > 0) shown_.received.push_back({begin, stop, crossings[0] * bytes});
        if (crossings[1] > 0) shown_.transmitted.push_back({begin, stop, crossings[1] * bytes});
      };
      match(
          operation,
          [&](const OneOf<Compute, Chain> auto&) {
            if (!team.is_chiefs[w]) return;
            const double time = chain_of(operation).time.value();
            const auto* kernel = std::get_if<Compute>(&operation);
            const double memory = kernel != nullptr
                                      ? kernel->memory.value()
                                      : time * teams_.step_of(team.workers()[w]).plan->memory_time.value() /
                                            std::max(kTiny, teams_.step_of(team.workers()[w]).plan->gpu_time.value());
            shown_.gpu.push_back({start, end, time * share * team.like / members});
            shown_.memory.push_back({start, end, memory * share * team.like / members});
          },
          [&](const Copy& copy) {
            carry(team.own_crossings[w][copy.direction == CopyDirection::kToGpu ? 0 : 1], as_double(copy.bytes) * share,
                  start, end);
          },
          [&](const Send& send) {
            const double latency = teams_.latency(team.workers()[w], send.connection) * scale;
            carry(team.crossings[w][at(send.connection)], as_double(teams_.wire_bytes(team.workers()[w], send)) * share,
                  start, std::max(start + kTiny, end - latency));
          },
          [&](const Fetch& fetch) { carry(team.own_crossings[w][2], as_double(fetch.bytes) * share, start, end); },
          [&](const Collective& collective) {
            if (t > 0 || !is_first_of_group(team, w, collective)) return;  // it is the same of others
            const auto [received, transmitted] = teams_.crossing(team.workers()[w], collective);
            carry({1, 0}, received * share, start, end);
            carry({0, 1}, transmitted * share, start, end);
          },
          [](const auto&) {});
    }
  }

  /// Of the team's workers that meet in it.
  bool is_first_of_group(const Team& team, std::size_t w, const Collective& collective) const {
    const int group = teams_.step_of(team.workers()[w]).groups[at(collective.group)];
    return std::none_of(team.workers().begin(), team.workers().begin() + static_cast<std::ptrdiff_t>(w),
                        [&](int other) {
                          const std::vector<int>& its = teams_.step_of(other).groups;
                          return std::find(its.begin(), its.end(), group) != its.end();
                        });
  }

  void keep(Pace pace, DescribedStep& described) {
    described.shown[static_cast<std::size_t>(pace)] = shown_labels(shown_, scenario_);
  }

  void fill(StepTimeline& timeline) const {
    const double length = period_ / kStepParts;
    const auto add = [&](std::size_t column, double start, double end, double amount) {
      if (!(end > start)) return;
      const auto part_at = [&](double date) {
        return std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(date / std::max(length, kTiny)), 0,
                                          kStepParts - 1);
      };
      for (std::ptrdiff_t p = part_at(start); p <= part_at(end); ++p) {
        const double begin = std::max(start, static_cast<double>(p) * length);
        const double stop =
            p + 1 == static_cast<std::ptrdiff_t>(kStepParts) ? end : std::min(end, static_cast<double>(p + 1) * length);
        if (stop > begin)
          timeline[static_cast<std::size_t>(p)][column] += static_cast<float>(amount * (stop - begin) / (end - start));
      }
    };
    for (const ShownWork& work : shown_.gpu) add(0, work.start, work.end, work.amount);
    for (const ShownWork& work : shown_.memory) add(1, work.start, work.end, work.amount);
    for (const ShownWork& work : shown_.received) add(2, work.start, work.end, work.amount / teams_.port_rate());
    for (const ShownWork& work : shown_.transmitted) add(3, work.start, work.end, work.amount / teams_.port_rate());
    const auto [from, to] = windows_.front();
    for (const Scheduled& one : schedules_.front().operations) {
      if (one.end <= from || one.start >= to) continue;
      const double start = std::max(one.start, from) - from, end = std::min(one.end, to) - from;
      const std::optional<StepResource> resource = resource_of(teams_.teams().front(), one);
      if (resource == StepResource::kCopies) add(4, start, end, end - start);
      if (resource == StepResource::kServers) add(5, start, end, end - start);
      if (resource == StepResource::kCollectives) add(6, start, end, end - start);
      if (resource == StepResource::kReceive || resource == StepResource::kTransmit) add(7, start, end, end - start);
    }
  }

  std::optional<StepResource> resource_of(const Team& team, const Scheduled& one) const {
    std::optional<StepResource> resource;
    match(
        team.operation(one), [&](const Delay&) { resource = StepResource::kHost; },
        [&](const Copy&) { resource = StepResource::kCopies; },
        [&](const OneOf<Compute, Chain> auto&) { resource = StepResource::kGpu; },
        [&](const Send& send) {
          resource = teams_.is_received(team.workers()[at(one.worker)], send.connection) ? StepResource::kReceive
                                                                                         : StepResource::kTransmit;
        },
        [&](const Fetch&) { resource = StepResource::kReceive; },
        [&](const OneOf<ReadVariable, ApplyGradient, AddGradient> auto&) { resource = StepResource::kServers; },
        [&](const Collective&) { resource = StepResource::kCollectives; }, [](const auto&) {});
    return resource;
  }

  void finish(DescribedStep& described) {
    fill(described.timelines[1]);
    add_nodes(described);
    add_loads(described);
    described.totals = totals_of(teams_, period_);
  }

  double bytes_of(const Team& team, const Scheduled& one) const {
    double bytes = 0;
    match(
        team.operation(one),
        [&](const OneOf<Copy, Send, Fetch, Collective> auto& carried) { bytes = as_double(carried.bytes); },
        [](const auto&) {});
    return bytes;
  }

  void add_nodes(DescribedStep& described) const {
    for (std::size_t t = 0; t < std::min<std::size_t>(teams_.teams().size(), 2); ++t) {
      const Team& team = teams_.teams()[t];
      const auto [from, to] = windows_[t];
      std::map<std::pair<std::size_t, std::int32_t>, std::int32_t> known;  // nodes by kind and part
      std::map<std::tuple<int, int, OperationIndex>, std::int32_t> node_of;
      for (const Scheduled& one : schedules_[t].operations) {
        const std::optional<StepResource> resource = resource_of(team, one);
        if (!resource || one.start < from - kTiny || one.start >= to) continue;
        const Operation& operation = team.operation(one);
        const std::size_t kind = kind_of(operation, resource == StepResource::kReceive);
        const auto part = static_cast<std::int32_t>(std::clamp<double>(
            std::floor((one.end - from) / std::max(period_, kTiny) * kStepParts / 2) * 2, 0, kStepParts - 2));
        const auto [entry, is_new] = known.try_emplace({kind, part}, static_cast<std::int32_t>(described.nodes.size()));
        if (is_new)
          described.nodes.push_back(
              {.kind = static_cast<std::int32_t>(kind),
               .part = part,
               .resource = static_cast<std::int32_t>(*resource),
               .costs = {0, 0, 0, 0, 0, static_cast<float>(one.start - from), 0,
                         static_cast<float>(team.like * static_cast<double>(team.workers().size()))}});
        node_of[{one.worker, one.step, one.operation}] = entry->second;
        auto& costs = described.nodes[at(entry->second)].costs;
        const auto seconds = static_cast<float>(one.end - one.start);
        costs[0] += 1;
        costs[1] += seconds;
        costs[2] = std::max(costs[2], seconds);
        costs[3] += static_cast<float>(bytes_of(team, one));
        costs[4] += static_cast<float>(std::max(0.0, one.start - one.ready));
        costs[5] = std::min(costs[5], static_cast<float>(one.start - from));
        costs[6] = std::max(costs[6], static_cast<float>(one.end - from));
      }
      add_edges(team, node_of, described);
    }
  }

  /// What waits for what, also over operations that take no time.
  static void add_edges(const Team& team, const std::map<std::tuple<int, int, OperationIndex>, std::int32_t>& node_of,
                        DescribedStep& described) {
    std::set<std::array<std::int32_t, 2>> edges;
    for (const auto& [place, node] : node_of) {
      const auto [worker, step, operation] = place;
      const Program& program = *team.programs[at(worker)];
      const Node& its = program.nodes[at(operation)];
      for (OperationIndex e = its.first_after; e < its.last_after; ++e) {
        const auto later = node_of.find({worker, step, program.after[at(e)]});
        if (later != node_of.end() && later->second != node) edges.insert({node, later->second});
      }
      if (is_kernels(its.operation)) {
        const auto next = node_of.find({worker, step, operation + 1});
        if (next != node_of.end() && next->second != node) edges.insert({node, next->second});
      }
    }
    described.edges.insert(described.edges.end(), edges.begin(), edges.end());
  }

  void add_loads(DescribedStep& described) {
    const Team& team = teams_.teams().front();
    const auto load = [&](StepResource resource) -> StepLoad& {
      return described.loads[static_cast<std::size_t>(resource)];
    };
    for (const Scheduled& one : schedules_.front().operations)
      if (const auto resource = resource_of(team, one); resource && one.step == steps_ - 1) {
        const auto seconds = static_cast<float>(one.end - one.start);
        load(*resource).seconds[0] += seconds;
        load(*resource).seconds[2] = std::max(load(*resource).seconds[2], seconds);
      }
    const auto most = [](float& value, double other) { value = std::max(value, static_cast<float>(other)); };
    for (const auto& [link, bytes] : teams_.all().links) {
      const double seconds = of_all(bytes) / teams_.rate_of(link);
      if (teams_.enters(link)) most(load(StepResource::kReceive).seconds[1], seconds);
      if (teams_.leaves(link)) most(load(StepResource::kTransmit).seconds[1], seconds);
      most(load(StepResource::kBusiestLink).seconds[1], seconds);
      if (const auto own = team.asked.links.find(link); own != team.asked.links.end())
        most(load(StepResource::kBusiestLink).seconds[0], of_all(own->second) / teams_.rate_of(link));
      most(load(StepResource::kCopies).seconds[1], (bytes[2] + bytes[3]) / teams_.rate_of(link));
    }
    for (const auto& [pool, seconds] : teams_.all().pools)
      most(load(StepResource::kServers).seconds[1], seconds / teams_.cores_of(pool));
    for (const Team& other : teams_.teams())
      for (const int member : other.workers()) {
        most(load(StepResource::kGpu).seconds[1], teams_.sums(member).kernels);
        most(load(StepResource::kHost).seconds[1],
             teams_.sums(member).host + teams_.step_of(member).plan->step_overhead.value());
      }
    load(StepResource::kCollectives).seconds[1] = load(StepResource::kCollectives).seconds[0];
  }

  StepTeams teams_;
  const Scenario& scenario_;
  int steps_ = 2;                               // of which the last is taken; one more where steps overlap
  double period_ = 0;                           // seconds, of a step of the chief
  std::vector<std::array<double, 2>> windows_;  // [teams] of the last step
  std::vector<StepSchedule> schedules_;         // [teams]
  ShownSteps shown_;
};

}  // namespace

DescribedStep describe_step(const Scenario& scenario) { return Describer{scenario}.describe(); }

}  // namespace rehearse
