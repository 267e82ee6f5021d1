#include "predictor/step_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/overloaded.hpp"
#include "sim/resources/core_pool.hpp"

namespace rehearse {

namespace {

/// An operation of a step of a worker.
struct Place {
  int worker = 0, step = 0;
  OperationIndex operation = 0;
};

/// What goes one after another, the lowest priority first.
struct Line {
  double free = 0;                                            // seconds
  bool is_woken = false;                                      // an event is there that starts the next
  std::vector<std::tuple<int, std::int64_t, Place>> waiting;  // priority, number of the arrival

  Place take() {
    const auto first = std::min_element(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    const Place place = std::get<2>(*first);
    waiting.erase(first);
    return place;
  }
};

class Scheduler {
 public:
  Scheduler(const PacedTeam& team, int steps) : team_{team}, steps_{steps}, states_(team.workers.size()) {
    for (std::size_t w = 0; w < states_.size(); ++w) {
      states_[w].connections.resize(team.workers[w].connections.size());
      schedule_.ends.emplace_back();
      for (const Node& node : program(w).nodes)
        if (const int counter = common_counter(node); counter >= 0) ++signallers_[counter];
      for (const int group : team.workers[w].groups) ++members_[group];
    }
  }

  StepSchedule run() {
    for (std::size_t w = 0; w < states_.size(); ++w) begin_at(static_cast<int>(w), 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.place.operation < 0)
        begin_step(event.place.worker, event.date);
      else
        event.is_wake ? wake(event) : start(event.place, event.date);
    }
    return std::move(schedule_);
  }

 private:
  struct Event {
    double date = 0;
    std::int64_t number = 0;
    Place place;
    bool is_wake = false;  // of a connection, or a group, that is free
    friend bool operator>(const Event& a, const Event& b) {
      return std::tie(a.date, a.number) > std::tie(b.date, b.number);
    }
  };
  struct Ready {
    double date = 0;
    OperationIndex pending = 0;
  };
  struct Stream {
    double gpu = 0, host = 0;
    std::size_t stretch = 0;
    std::int64_t repeats = 0;
    OperationIndex next = 0;
    bool is_advancing = false;
  };
  struct Counter {
    std::int64_t count = 0;
    double date = 0;
    std::vector<Place> gates;
  };
  struct State {
    int begun = 0;
    std::vector<std::vector<Ready>> ready;  // [steps][operations]
    std::vector<Stream> streams;
    std::array<double, 2> copies{};
    std::vector<Line> connections;
    std::map<int, Counter> counters;
  };
  struct Meeting {
    int came = 0;
    std::vector<Place> places;
  };

  const Program& program(std::size_t worker) const { return *team_.workers[worker].program; }
  const Operation& operation_of(const Place& p) const { return program(at(p.worker)).operation(p.operation); }
  Ready& ready_of(const Place& p) { return states_[at(p.worker)].ready[at(p.step)][at(p.operation)]; }

  /// The counter of all workers that the operation advances; -1: none.
  static int common_counter(const Node& node) {
    if (node.signal && node.signal->scope == CounterScope::kAll) return node.signal->counter;
    const auto* apply = std::get_if<ApplyGradient>(&node.operation);
    return apply != nullptr && apply->is_event ? apply->counter : -1;
  }

  void push(double date, const Place& place, bool is_wake = false) {
    events_.push({date, next_number_++, place, is_wake});
  }

  /// Kernels of the step before may be going on.
  void begin_at(int worker, double date) { push(date, {.worker = worker, .operation = -1}); }
  void begin_step(int worker, double date) {
    State& state = states_[at(worker)];
    if (state.begun == steps_) return;
    const int step = state.begun++;
    const Program& its = program(at(worker));
    std::vector<Ready>& ready = state.ready.emplace_back();
    ready.reserve(its.nodes.size());
    for (const Node& node : its.nodes) ready.push_back({date, node.needs});
    state.streams.resize(std::max(state.streams.size(), its.streams.size()));
    for (std::size_t s = 0; s < its.streams.size(); ++s) {
      Stream& stream = state.streams[s];
      stream.stretch = 0;
      stream.repeats = 0;
      stream.next = its.streams[s].empty() ? 0 : its.streams[s].front().begin;
    }
    for (const OperationIndex first : its.first) issue({worker, step, first});
  }

  void note(const Place& p, double start, double end, const CollectiveCost& cost = {}) {
    schedule_.operations.push_back({p.worker, p.step, p.operation, ready_of(p).date, start, end, cost});
  }
  void finish(const Place& p, double start, double end) {
    note(p, start, end);
    ended(p, end);
  }

  void issue(const Place& p) {
    const double ready = ready_of(p).date;
    State& state = states_[at(p.worker)];
    match(
        operation_of(p), [&](const Delay& delay) { finish(p, ready, ready + delay.time.value()); },
        [&](const Notify& notify) {
          finish(p, ready, ready + team_.workers[at(p.worker)].connections[at(notify.connection)].latency);
        },
        [&](const BeginKernels&) {
          for (Stream& stream : state.streams) {
            stream.host = std::max(stream.host, ready);
            stream.gpu = std::max(stream.gpu, ready);
          }
          ended(p, ready);
        },
        [&](const OneOf<Compute, Chain> auto& kernels) { advance(p.worker, p.step, kernels.stream); },
        [&](const Gate& gate) {
          Counter& counter = counter_of(p.worker, gate.scope, gate.counter);
          if (!pass(p, counter)) counter.gates.push_back(p);
        },
        [&](const OneOf<StepsGate, Update> auto&) { ended(p, ready); }, [&](const Fence&) { end_step(p, ready); },
        [&](const NextStep&) {
          ended(p, ready);
          begin_at(p.worker, ready);
        },
        [&](const OneOf<Copy, Send, ReadVariable, ApplyGradient, AddGradient, Fetch, Collective> auto&) {
          push(ready, p);
        });
  }

  /// A step without the operation NextStep is followed by the next one at once, or when all have come so far.
  void end_step(const Place& p, double date) {
    note(p, date, date);
    schedule_.ends[at(p.worker)].push_back(date);
    ended(p, date);
    const std::vector<Node>& nodes = program(at(p.worker)).nodes;
    if (std::any_of(nodes.begin(), nodes.end(),
                    [](const Node& node) { return std::holds_alternative<NextStep>(node.operation); }))
      return;
    if (!team_.is_in_lockstep) return begin_at(p.worker, date);
    double latest = date;
    for (const std::vector<double>& ends : schedule_.ends) {
      if (ends.size() <= at(p.step)) return;
      latest = std::max(latest, ends[at(p.step)]);
    }
    for (std::size_t w = 0; w < states_.size(); ++w) begin_at(static_cast<int>(w), latest);
  }

  void ended(const Place& p, double date) {
    const Program& its = program(at(p.worker));
    const Node& node = its.nodes[at(p.operation)];
    if (const int common = common_counter(node); common >= 0) {
      auto& [left, latest] = to_come_.try_emplace({p.step, common}, signallers_[common], 0.0).first->second;
      latest = std::max(latest, date);
      if (--left == 0) advance_counter(counter_of(p.worker, CounterScope::kAll, common), latest);
    }
    if (node.signal && node.signal->scope != CounterScope::kAll)
      advance_counter(counter_of(p.worker, node.signal->scope, node.signal->counter), date);
    for (OperationIndex e = node.first_after; e < node.last_after; ++e) {
      const Place later{p.worker, p.step, its.after[at(e)]};
      Ready& ready = ready_of(later);
      ready.date = std::max(ready.date, date);
      if (--ready.pending == 0) issue(later);
    }
  }

  Counter& counter_of(int worker, CounterScope scope, int counter) {
    return scope == CounterScope::kWorker ? states_[at(worker)].counters[counter]
           : scope == CounterScope::kTeam ? team_counters_[counter]
                                          : common_counters_[counter];
  }
  bool pass(const Place& p, const Counter& counter) {
    const Gate& gate = std::get<Gate>(operation_of(p));
    if (counter.count < std::int64_t{gate.each} * (p.step + 1 - gate.lag)) return false;
    const double ready = ready_of(p).date;
    const double date = gate.lag <= p.step ? std::max(ready, counter.date) : ready;
    finish(p, ready, date);
    return true;
  }
  void advance_counter(Counter& counter, double date) {
    ++counter.count;
    counter.date = std::max(counter.date, date);
    for (const Place& gate : std::exchange(counter.gates, {}))
      if (!pass(gate, counter)) counter.gates.push_back(gate);
  }

  /// The bytes on their way, behind what its links have to carry before.
  double carry(const PacedPath& path, double start, double bytes) {
    double end = start + bytes * path.seconds_per_byte;
    for (const PacedPath::Link& link : path.links) {
      double& busy_until = links_[link.link];
      busy_until = std::max(busy_until, start) + bytes * link.seconds_per_byte;
      end = std::max(end, busy_until);
    }
    return end;
  }

  /// Work of `parts` cores for `time` each, behind what others bring at the same time.
  double serve(const PacedCores& cores, double start, int parts, double time) {
    auto& [pool, others] = pools_.try_emplace(cores.pool, CorePool{cores.cores}, 0.0).first->second;
    constexpr double kMostJobs = 8;  // which stand for more
    others += cores.slowdown - 1;
    const double due = std::floor(others), jobs = std::min(due, kMostJobs);
    others -= due;
    for (double job = 0; job < jobs * parts; ++job) (void)pool.run(Seconds{start}, Seconds{time * due / jobs});
    double end = start;
    for (int part = 0; part < parts; ++part) end = std::max(end, pool.run(Seconds{start}, Seconds{time}).end.value());
    return end;
  }

  void start(const Place& p, double now) {
    const PacedWorker& worker = team_.workers[at(p.worker)];
    State& state = states_[at(p.worker)];
    match(
        operation_of(p),
        [&](const Copy& copy) {
          const PacedPath& path = worker.copies[copy.direction == CopyDirection::kToGpu ? 0 : 1];
          double& free = state.copies[copy.direction == CopyDirection::kToGpu ? 0 : 1];
          const double begin = std::max(now, free);
          free = carry(path, begin, as_double(copy.bytes));
          finish(p, begin, free + path.latency);
        },
        [&](const Send& send) {
          const Program& its = program(at(p.worker));
          const double cycle = send.is_collected ? its.cycle->time.value() : 0;
          Line& line = state.connections[at(send.connection)];
          line.waiting.emplace_back(send.priority, next_number_++, p);
          wake_at(line, std::max(line.free, end_of_cycle(now, cycle)), p);
        },
        [&](const ReadVariable& read) {
          finish(p, now, serve(team_.servers[at(read.server)], now, 1, read.time.value()));
        },
        [&](const ApplyGradient& apply) {
          finish(p, now,
                 serve(team_.servers[at(apply.server)], now, apply.parts,
                       apply.time.value() + (apply.counter >= 0 ? apply.update.value() : 0)));
        },
        [&](const AddGradient& add) { finish(p, now, serve(worker.host, now, add.parts, add.time.value())); },
        [&](const Fetch& fetch) {
          const double begin = now + worker.fetch.latency;
          finish(p, begin, carry(worker.fetch, begin, as_double(fetch.bytes)) + worker.fetch.latency);
        },
        [&](const Collective& collective) { come(p, collective, now); }, [](const auto&) {});
  }

  /// All of the team that meet in it have come with the last.
  void come(const Place& p, const Collective& collective, double now) {
    const int group = team_.workers[at(p.worker)].groups[at(collective.group)];
    Meeting& meeting = meetings_[{group, collective.label, p.step}];
    meeting.places.push_back(p);
    if (++meeting.came < members_[group]) return;
    Line& line = groups_[group];
    line.waiting.emplace_back(team_.is_by_priority ? collective.priority : 0, next_number_++, p);
    wake_at(line, end_of_cycle(std::max(line.free, now), team_.cycle), p);
  }

  static double end_of_cycle(double now, double cycle) { return cycle > 0 ? std::ceil(now / cycle) * cycle : now; }
  void wake_at(Line& line, double date, const Place& p) {
    if (!std::exchange(line.is_woken, true)) push(date, p, true);
  }
  /// Once one of the line has begun.
  void wake_next(Line& line, double cycle, const Place& p) {
    line.is_woken = !line.waiting.empty();
    if (line.is_woken) push(end_of_cycle(line.free, cycle), p, true);
  }

  void wake(const Event& event) {
    const Place& p = event.place;
    if (const auto* collective = std::get_if<Collective>(&operation_of(p)))
      return start_collective(team_.workers[at(p.worker)].groups[at(collective->group)], event);
    Line& line = states_[at(p.worker)].connections[at(std::get<Send>(operation_of(p)).connection)];
    const Place next = line.take();
    const Send& its = std::get<Send>(operation_of(next));
    const PacedPath& path = team_.workers[at(next.worker)].connections[at(its.connection)];
    line.free = carry(path, event.date, as_double(its.bytes));
    finish(next, event.date, line.free + path.latency);
    wake_next(line, 0, p);
  }

  void start_collective(int group, const Event& event) {
    Line& line = groups_[group];
    std::vector<Place> fused{line.take()};
    const Collective& first = std::get<Collective>(operation_of(fused.front()));
    Bytes bytes = first.bytes;
    while (team_.cycle > 0 && !line.waiting.empty()) {
      const Place next = line.take();
      const Collective& its = std::get<Collective>(operation_of(next));
      if (its.kind != first.kind || (team_.largest > Bytes{} && bytes + its.bytes > team_.largest)) {
        line.waiting.emplace_back(0, -1, next);
        break;
      }
      bytes += its.bytes;
      fused.push_back(next);
    }
    CollectiveCost cost = team_.cost(group, first, bytes);
    line.free = event.date + cost.seconds;
    for (const Place& one : fused) {
      const Collective& its = std::get<Collective>(operation_of(one));
      const auto meeting = meetings_.extract({group, its.label, one.step});
      for (const Place& place : meeting.mapped().places) {
        note(place, event.date, line.free, std::exchange(cost, {}));
        ended(place, line.free);
      }
    }
    wake_next(line, team_.cycle, event.place);
  }

  /// Kernels of the stream, as far as what they wait for is known.
  void advance(int worker, int step, int index) {
    State& state = states_[at(worker)];
    if (state.streams[at(index)].is_advancing) return;
    state.streams[at(index)].is_advancing = true;
    const std::vector<Stretch>& stretches = program(at(worker)).streams[at(index)];
    while (state.streams[at(index)].stretch < stretches.size()) {
      Stream& stream = state.streams[at(index)];
      const Stretch& stretch = stretches[stream.stretch];
      const Place p{worker, step, stream.next};
      if (ready_of(p).pending > 0) break;
      const Chain chain = chain_of(operation_of(p));
      const double ready = ready_of(p).date;
      const double begin = chain.is_dispatched_ahead ? stream.host : std::max(stream.host, ready);
      if (chain.is_dispatched_ahead) stream.gpu = std::max(stream.gpu, ready);
      const double start = std::max(stream.gpu, begin + chain.first_host.value());
      stream.host = begin + chain.host.value();
      stream.gpu = std::max(stream.gpu + chain.time.value(), begin + chain.critical.value());
      const double end = stream.gpu;
      const bool is_last_time = stream.repeats + 1 == stretch.repeat;
      if (++stream.next == stretch.end) {
        if (++stream.repeats < stretch.repeat) {
          stream.next = stretch.begin;
        } else {
          stream.repeats = 0;
          if (++stream.stretch < stretches.size()) stream.next = stretches[stream.stretch].begin;
        }
      }
      note(p, start, end);
      if (is_last_time) ended(p, end);
    }
    state.streams[at(index)].is_advancing = false;
  }

  const PacedTeam& team_;
  int steps_;
  std::vector<State> states_;  // [workers]
  StepSchedule schedule_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t next_number_ = 0;
  std::map<int, int> signallers_;  // by counter of all: operations of a step of the team that advance it
  std::map<int, int> members_;     // by group: workers of the team that are in it
  std::map<std::pair<int, int>, std::pair<int, double>> to_come_;  // by step and counter of all: operations, the latest
  std::map<int, Counter> team_counters_, common_counters_;
  std::map<int, double> links_;                       // seconds until which they are busy
  std::map<int, std::pair<CorePool, double>> pools_;  // and what others are to bring
  std::map<int, Line> groups_;
  std::map<std::tuple<int, int, int>, Meeting> meetings_;  // by group, label and step
};

}  // namespace

StepSchedule schedule_steps(const PacedTeam& team, int steps) { return Scheduler{team, steps}.run(); }

}  // namespace rehearse
