#include "predictor/step_schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <utility>

#include "sim/base/overloaded.hpp"
#include "sim/program/executor.hpp"
#include "sim/program/reductions.hpp"
#include "sim/resources/plain_loop.hpp"

namespace rehearse {

namespace {

/// What goes one after another over one way.
struct Line {
  double start = 0, end = 0, free = 0;  // of the latest; and from when on the way is free

  /// When it has had its turn that came to the line at `from`, and ends at `until`; what is fused with the latest ends with it.
  double turn(double from, double until, double latency) {
    if (until > end) *this = {std::max(from, free), until, until - latency};
    return start;
  }
};

class TeamRun final : Executor::Client, Executor::Watcher {
 public:
  TeamRun(StepCompiler& compiler, const ClusterStep& step, const ScheduledTeam& team, int steps, Network& idle)
      : compiler_{compiler},
        team_{team},
        steps_{steps},
        loop_{compiler.site().topology},
        cluster_{compiler.site(), loop_.clock(), loop_.network(), recorder_},
        idle_{compiler.site(), loop_.clock(), idle, recorder_},
        executor_{cluster_, clock_, *this} {
    slow_down();
    executor_.watch(*this);
    const auto counters = std::make_shared<Counters>();
    for (const int worker : team.workers) add_member(step.of(worker), counters);
    for (const Endpoint& gpu : team.partners)
      partners_.push_back(&executor_.add_worker({.host = {gpu.machine, Endpoint::kHost}, .gpu = gpu}, clock_));
    form_groups(step);
  }

  StepSchedule run() {
    begin_all();
    loop_.run();
    return std::move(schedule_);
  }

 private:
  struct Member {
    RunningWorker* running = nullptr;
    const Program* program = nullptr;
    std::vector<CollectiveGroup*> groups{};
    std::array<Line, 2> copies{};
    std::vector<Line> connections{}, streams{};
    std::vector<double> latencies{};  // [connections]
    std::int64_t begun = 0;
  };

  const Strategy& strategy() const { return compiler_.scenario().training.strategy; }
  bool ends_together() const { return strategy().kind->is_in_lockstep() && !strategy().overlaps_steps(); }
  Member& member(const RunningWorker& running) { return members_[at(running.index())]; }

  void slow_down() {
    std::map<int, BytesPerSecond> rates;
    for (const auto& [link, slower] : team_.slowdowns.links)
      if (slower > 1) rates[link] = loop_.network().rate(link) / slower;
    loop_.network().fold({}, {.like = {}, .rates = rates});
    for (const auto& [pool, slower] : team_.slowdowns.pools) {
      const std::size_t machines = cluster_.cores.size();
      CorePool& cores = at(pool) < machines ? cluster_.cores[at(pool)] : cluster_.serving[at(pool) - machines].threads;
      const double left = std::ceil(cores.cores() / slower);
      cores = CorePool{static_cast<int>(left), left * slower / cores.cores()};
    }
  }

  void add_member(const WorkerStep& step, const std::shared_ptr<Counters>& counters) {
    const std::vector<Endpoint>& gpus = compiler_.site().workers[at(step.worker)];
    RunningWorker::Place place{.host = {gpus.front().machine, Endpoint::kHost},
                               .gpu = gpus.front(),
                               .other_gpus = {gpus.begin() + 1, gpus.end()}};
    place.copies_are_alone = compiler_.strategy().copies_are_alone(step.worker) &&
                             plan_reductions(compiler_.scenario(), false, false).copies_are_alone;
    place.connections = compiler_.paths(step.worker, loop_.network());
    Member& member = members_.emplace_back();
    for (const PathIndex path : place.connections) member.latencies.push_back(loop_.network().latency(path).value());
    member.connections.resize(place.connections.size());
    member.running = &executor_.add_worker(place, clock_, counters);
    member.program = with_equal_payloads(compiler_.program(step));
    member.streams.resize(member.program->streams.size());
    schedule_.ends.emplace_back();
  }

  /// Of ranks outside of the team nobody says how much they send.
  const Program* with_equal_payloads(const Program& program) {
    const auto unequal = [](const Node& node) {
      const auto* collective = std::get_if<Collective>(&node.operation);
      return collective != nullptr && collective->of != PayloadOf::kAll;
    };
    if (std::ranges::none_of(program.nodes, unequal)) return &program;
    Program& equal = equal_.emplace_back(program);
    for (Node& node : equal.nodes)
      if (auto* collective = std::get_if<Collective>(&node.operation)) collective->of = PayloadOf::kAll;
    return &equal;
  }

  void form_groups(const ClusterStep& step) {
    const GradientExchange& exchange = strategy().exchange;
    CollectiveGroup::Rule rule;
    if (strategy().kind->collectives() != nullptr) rule = {exchange.order, exchange.cycle_time, exchange.bucket_size};
    std::map<int, std::int64_t> sizes;
    for (const int worker : team_.workers)
      for (const int group : step.of(worker).groups) ++sizes[group];
    std::map<int, CollectiveGroup*> formed;
    for (const auto& [group, size] : sizes) {
      auto communicator = std::make_unique<Communicator>(
          idle_, clock_, compiler_.site().gpus_of(step.groups[at(group)].workers), CollectiveEvents::kAll);
      groups_.push_back(std::make_unique<CollectiveGroup>(executor_, clock_, size, rule, std::move(communicator)));
      formed[group] = groups_.back().get();
    }
    for (std::size_t w = 0; w < members_.size(); ++w)
      for (const int group : step.of(team_.workers[w]).groups) members_[w].groups.push_back(formed.at(group));
  }

  void begin_all() {
    for (Member& member : members_) begin(member);
  }
  void begin(Member& member) {
    if (member.begun == steps_) return;
    const std::int64_t number = member.begun++;
    if (strategy().is_synchronous())
      executor_.expect(number, strategy().kind->is_in_lockstep() ? std::ssize(members_) : 1);
    executor_.begin_step(*member.running, *member.program, member.groups, number);
  }

  double begin_kernels(RunningWorker&, Seconds) override { return 1; }
  void update() override {}
  void begin_next(RunningWorker& running) override { begin(member(running)); }
  const RunningWorker* choose_partner(RunningWorker& running) override {
    return at(running.index()) < partners_.size() ? partners_[at(running.index())] : nullptr;
  }
  void know_end(RunningWorker& running, Seconds end) override {
    std::vector<double>& own = schedule_.ends[at(running.index())];
    own.push_back(end.value());
    if (!strategy().kind->is_in_lockstep())
      return clock_.schedule(end, [this, &running, next = std::ssize(own)] { executor_.go_on(running, next); });
    if (!ends_together()) return clock_.schedule(end, [this, &running] { begin(member(running)); });
    double latest = 0;
    for (const std::vector<double>& ends : schedule_.ends) {
      if (ends.size() < own.size()) return;
      latest = std::max(latest, ends[own.size() - 1]);
    }
    clock_.schedule(Seconds{latest}, [this] { begin_all(); });
  }

  void ended(const RunningWorker& running, StepOperation operation, Seconds when) override {
    const double ready = running.ready_at(operation).value(), end = when.value();
    schedule_.operations.push_back({running.index(), static_cast<int>(running.step_of(operation)), operation.index,
                                    ready, start_of(member(running), operation.index, ready, end), end});
  }

  double start_of(Member& member, OperationIndex index, double ready, double end) {
    double start = ready;
    match(
        member.program->operation(index),
        [&](const OneOf<Compute, Chain> auto& kernels) {
          const Chain chain = chain_of(kernels);
          Line& stream = member.streams[at(chain.stream)];
          const double first = end - (chain.critical - chain.first_host).value();
          start = stream.turn(chain.is_dispatched_ahead ? std::max(ready, first) : first, end, 0);
        },
        [&](const Copy& copy) { start = member.copies[at(copy.direction)].turn(ready, end, 0); },
        [&](const Send& send) {
          if (send.is_collected) start = end_of_cycle(Seconds{ready}, member.program->cycle->time).value();
          start = member.connections[at(send.connection)].turn(start, end, member.latencies[at(send.connection)]);
        },
        [&](const Collective& collective) {
          start = member.groups[at(collective.group)]->begun(collective.label).value();
        },
        [](const auto&) {});
    return start;
  }

  StepCompiler& compiler_;
  const ScheduledTeam& team_;
  int steps_;
  PlainLoop loop_;
  Recorder recorder_;
  Cluster cluster_, idle_;  // with slowed links; with those that collectives have for themselves
  OwnedClock clock_{loop_.clock()};
  StepSchedule schedule_;
  std::deque<Program> equal_;
  std::vector<Member> members_;
  std::vector<const RunningWorker*> partners_;
  std::vector<std::unique_ptr<CollectiveGroup>> groups_;
  Executor executor_;
};

}  // namespace

StepSchedule schedule_steps(StepCompiler& compiler, const ClusterStep& step, const ScheduledTeam& team, int steps,
                            Network& idle) {
  return TeamRun{compiler, step, team, steps, idle}.run();
}

}  // namespace rehearse
