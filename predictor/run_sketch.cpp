#include "predictor/run_sketch.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "predictor/detail/flow_classes.hpp"
#include "predictor/run_labels.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/resources/core_pool.hpp"
#include "sim/resources/rate_pulses.hpp"

namespace rehearse {

namespace {

constexpr double kRounding = 1e-9;   // of a period: not there
constexpr double kSameRate = 1e-12;  // relative
constexpr double kMostSteps = 1000;  // that are drawn
constexpr double kMostSamples = 60'000;
constexpr int kMostSketched = 16;          // workers; each of them stands for as many
constexpr double kMostMessages = 200'000;  // of a run
constexpr double kMostShares = 4e6;        // the same, times classes of flows
constexpr double kLeastRounds = 3;         // steps of each worker
constexpr double kMostRounds = 22;         // the same: a resource profile covers 20

/// Something of which `amount` is spread evenly over a time.
struct Load {
  double start = 0, end = 0, amount = 0;
};

/// What the chief's machine does from `begin` to `end`, which is sampled, and then again and again.
struct SketchedRun {
  std::vector<Load> gpu, memory;        // seconds, the mean of its GPUs
  std::vector<Load> receive, transmit;  // bytes
  double begin = 0, end = 0;
  double repeats = 0;
  double step_s = 0;  // mean of all workers

  double length() const { return end - begin; }
};

struct Message {
  double ready = 0;
  double bytes = 0;
  std::size_t variable = 0;
};

constexpr double kEndless = FlowClasses::kNever;

/// What all sketches of a cluster share.
class Sketch {
 public:
  Sketch(const std::vector<SketchedKernel>& kernels, const std::vector<SketchedVariable>& variables,
         const SketchedCluster& cluster)
      : kernels_{kernels}, variables_{variables}, cluster_{cluster}, completed_by_(kernels.size()) {
    for (std::size_t v = 0; v < variables.size(); ++v)
      if (variables[v].gradient >= 0) completed_by_[static_cast<std::size_t>(variables[v].gradient)].push_back(v);
  }

 protected:
  struct Worker {
    double host = 0, gpu = 0;         // are free from then on
    double to_gpu = 0, from_gpu = 0;  // so are the ways of its GPU's link
    std::size_t kernel = 0;           // to dispatch
    std::vector<double> arrived;      // [variables] when on the GPU, kEndless: unknown yet
  };

  bool is_one_machine() const { return cluster_.machines == 1 && (cluster_.is_colocated || cluster_.servers == 0); }

  /// The samples go to the GPU, and kernels after them.
  void begin_step(Worker& worker, double now, double workers) {
    const double there = copy(worker.to_gpu, now + cluster_.overhead_s, cluster_.input_bytes, run_.receive, workers);
    worker.host = std::max(worker.host, there);
    worker.gpu = std::max(worker.gpu, there);
    worker.kernel = 0;
  }

  /// One after the other over the link that is `free` from then on, by as many `workers`; returns the copy's end.
  double copy(double& free, double ready, double bytes, std::vector<Load>& traffic, double workers) const {
    const double start = std::max(free, ready);
    free = start + bytes / cluster_.gpu_link_bytes_per_s;
    if (is_one_machine()) traffic.push_back({start, free, bytes * workers});
    return free;
  }

  /// Dispatches kernels, up to one whose variables are not there; calls `complete` with variables whose gradients are
  /// complete, and when. `share` of the chief's GPUs do so.
  template <typename Complete>
  void compute(Worker& worker, double share, const Complete& complete) {
    for (; worker.kernel < kernels_.size(); ++worker.kernel) {
      const SketchedKernel& kernel = kernels_[worker.kernel];
      double ready = worker.host;
      for (int v = kernel.first_variable; v < kernel.first_variable + kernel.variables; ++v)
        ready = std::max(ready, worker.arrived[static_cast<std::size_t>(v)]);
      if (ready == kEndless) return;
      worker.host = ready + cluster_.dispatch_s;
      const double start = std::max(worker.gpu, worker.host);
      worker.gpu = start + kernel.time_s;
      if (share > 0) {
        run_.gpu.push_back({start, worker.gpu, kernel.time_s * share});
        run_.memory.push_back({start, worker.gpu, kernel.memory_s * share});
      }
      for (const std::size_t v : completed_by_[worker.kernel]) complete(v, worker.gpu);
    }
  }

  const std::vector<SketchedKernel>& kernels_;
  const std::vector<SketchedVariable>& variables_;
  const SketchedCluster& cluster_;
  std::vector<std::vector<std::size_t>> completed_by_;  // [kernels] gradients of variables
  SketchedRun run_;
};

/// Workers in lockstep, of which one is looked at.
class RingSketch : Sketch {
 public:
  using Sketch::Sketch;

  SketchedRun run() {
    Worker worker{.arrived = std::vector<double>(variables_.size())};
    begin_step(worker, 0, cluster_.workers);
    std::vector<Message> gradients;
    compute(worker, 1, [&](std::size_t v, double ready) {  // moving averages, which are never pulled, stay
      if (variables_[v].pulled_bytes > 0) gradients.push_back({ready, variables_[v].pushed_bytes, v});
    });
    run_.end = std::max(worker.host, worker.gpu);
    if (cluster_.workers > 1) reduce(gradients);
    run_.begin = run_.step_s = run_.end;  // the second step
    run_.end *= 2;
    for (std::vector<Load>* loads : {&run_.gpu, &run_.memory, &run_.receive, &run_.transmit})
      for (Load& load : *loads) {
        load.start += run_.begin;
        load.end += run_.begin;
      }
    run_.repeats = cluster_.window_steps - 1;
    return std::move(run_);
  }

 private:
  /// Each worker sends and receives 2 (n - 1) / n of the gradients.
  void reduce(const std::vector<Message>& gradients) {
    const double share = 2.0 * (cluster_.workers - 1) / cluster_.workers;
    const SketchedRing& ring = cluster_.ring;
    const double links = is_one_machine() ? cluster_.gpu_link_bytes_per_s : cluster_.nic_bytes_per_s;
    const double byte_s = ring.byte_s > 0 ? ring.byte_s : share / links;
    double free = ring.waits_for_backward ? run_.end : 0;
    for (std::size_t i = 0; i < gradients.size();) {
      const Message bucket = next_bucket(gradients, i, free);
      const double start = std::max(free, bucket.ready);
      free = start + ring.latency_s + bucket.bytes * byte_s;
      const Load traffic{start, free, bucket.bytes * share * (is_one_machine() ? cluster_.workers : 1)};
      run_.receive.push_back(traffic);
      run_.transmit.push_back(traffic);
    }
    run_.end = std::max(run_.end, free);
  }

  /// Of the gradients from number `i` on, which it moves; the ring is free from `free` on.
  Message next_bucket(const std::vector<Message>& messages, std::size_t& i, double free) const {
    const SketchedRing& ring = cluster_.ring;
    Message bucket = messages[i++];
    if (ring.cycle_s > 0) {
      bucket.ready = std::ceil(std::max(free, bucket.ready) / ring.cycle_s) * ring.cycle_s;
      for (; i < messages.size() && messages[i].ready <= bucket.ready; ++i) {
        if (ring.bucket_bytes > 0 && bucket.bytes + messages[i].bytes > ring.bucket_bytes) break;
        bucket.bytes += messages[i].bytes;
      }
      return bucket;
    }
    for (; i < messages.size() && bucket.bytes < ring.bucket_bytes; ++i) {
      bucket.bytes += messages[i].bytes;
      bucket.ready = messages[i].ready;
    }
    return bucket;
  }
};

/// Workers and parameter servers, event by event, for as many steps as are enough: plan_length().
class ServerSketch : Sketch {
 public:
  ServerSketch(const std::vector<SketchedKernel>& kernels, const std::vector<SketchedVariable>& variables,
               const SketchedCluster& cluster)
      : Sketch{kernels, variables, cluster},
        pulled_(static_cast<std::size_t>(cluster.servers)),
        workers_(static_cast<std::size_t>(std::clamp(cluster.workers, 1, kMostSketched))),
        others_{static_cast<double>(cluster.workers) / static_cast<double>(workers_.size())},
        workers_here_{static_cast<std::size_t>(std::max(1, cluster.workers / cluster.machines))},
        pools_(machines(), CorePool{std::max(1, cluster.cores)}),
        flows_{nics(), cluster.flow_bytes_per_s},
        applied_(variables.size()) {
    for (std::size_t v = 0; v < variables.size(); ++v) {
      if (variables[v].pulled_bytes > 0) pulled_[static_cast<std::size_t>(variables[v].server)].push_back(v);
      if (variables[v].gradient >= 0) ++pushed_;
    }
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (machine_of_worker(w) == 0) chiefs_ += 1;
      for (std::size_t s = 0; s < pulled_.size(); ++s)
        for (const bool is_push : {false, true}) add_lane(w, s, is_push);
    }
    plan_length();
  }

  SketchedRun run() {
    for (std::size_t w = 0; w < workers_.size(); ++w) schedule(0, What::kBegin, w);
    while (!is_over_) {
      const double ends = flows_.next_end(now_);
      double next = kEndless;
      if (!events_.empty()) next = events_.top().at;
      receive_.change(flows_.into(0), now_, run_.receive);
      transmit_.change(flows_.out_of(0), now_, run_.transmit);
      if (!std::isfinite(std::min(ends, next))) return {};
      if (ends <= next) {
        now_ = ends;
        end_message(lanes_[flows_.end_next()]);
      } else {
        now_ = next;
        const Event event = events_.top();
        events_.pop();
        handle(event);
      }
    }
    const double left = std::max(0.0, whole_run_ - static_cast<double>(begun_));
    run_.repeats = left / std::max(1.0, static_cast<double>(measured_ - 1));  // one ended when the samples began
    run_.step_s = lengths_ / static_cast<double>(measured_);
    return std::move(run_);
  }

 private:
  struct ServedWorker : Worker {
    std::size_t steps = 0;
    double ended = 0;         // the latest of them
    std::size_t to_push = 0;  // gradients of its step
    double acknowledged = 0;  // the latest of them
  };

  /// One direction of the connection between a worker and a server, which carries one message at a time.
  struct Lane {
    bool is_push = false;
    std::size_t worker = 0, server = 0;
    std::size_t from = 0, to = 0;  // machines
    std::size_t flow_class = 0;
    std::vector<Message> queue;  // in the order in which they are ready
    std::size_t next = 0;
    bool is_busy = false;

    bool is_local() const { return from == to; }
    bool is_waiting() const { return next < queue.size(); }
  };

  /// One direction of the chief's NICs.
  struct NicRate {
    double rate = 0, since = 0;
    void change(double to, double now, std::vector<Load>& traffic) {
      if (std::abs(to - rate) <= kSameRate * rate) return;
      cut(now, traffic);
      rate = to;
    }
    void cut(double now, std::vector<Load>& traffic) {
      if (rate > 0 && now > since) traffic.push_back({since, now, rate * (now - since)});
      since = now;
    }
  };

  enum class What { kBegin, kRequest, kReady, kDone };
  struct Event {
    double at = 0;
    std::size_t order = 0;
    What what{};
    std::size_t index = 0;  // of a worker, or of a lane
    bool operator>(const Event& other) const { return at > other.at || (at == other.at && order > other.order); }
  };

  std::size_t machine_of_worker(std::size_t worker) const {
    return worker / workers_here_ % static_cast<std::size_t>(cluster_.machines);
  }
  std::size_t machine_of_server(std::size_t server) const {
    if (!cluster_.is_colocated) return worker_machines() + server;
    return static_cast<std::size_t>(
        rehearse::machine_of_server(static_cast<int>(server), cluster_.servers, cluster_.machines));
  }
  /// Those of sketched workers, and of servers beside workers.
  std::size_t worker_machines() const {
    return std::min(static_cast<std::size_t>(cluster_.machines),
                    std::max(workers_.size(), cluster_.is_colocated ? pulled_.size() : 0));
  }
  std::size_t machines() const { return worker_machines() + (cluster_.is_colocated ? 0 : pulled_.size()); }
  std::vector<double> nics() const {
    std::vector<double> nics(machines(), cluster_.server_nic_bytes_per_s);
    std::fill_n(nics.begin(), worker_machines(), cluster_.nic_bytes_per_s);
    return nics;
  }
  std::size_t lane_of(std::size_t worker, std::size_t server, bool is_push) const {
    return 2 * (worker * pulled_.size() + server) + (is_push ? 1 : 0);
  }

  void add_lane(std::size_t w, std::size_t s, bool is_push) {
    const std::size_t own = machine_of_worker(w), other = machine_of_server(s);
    Lane& lane = lanes_.emplace_back();
    lane.is_push = is_push;
    lane.worker = w;
    lane.server = s;
    lane.from = is_push ? own : other;
    lane.to = is_push ? other : own;
    if (!lane.is_local())  // the server's machine has those of the other workers, too
      lane.flow_class = flows_.add(lane.from, lane.to, is_push ? 1 : others_, is_push ? others_ : 1);
  }

  /// The whole run if that is not too much; else what comes after the warm-up goes on until its end. Of a few
  /// synchronous workers a cycle is enough: whoever ended a step last begins the next one first, so that each of them
  /// is first once in so many steps (sim/record/repeated_steps.hpp).
  void plan_length() {
    const auto workers = static_cast<double>(workers_.size());
    const double messages = 2 * workers * std::max<double>(1, static_cast<double>(variables_.size()));
    const double most =
        std::min(kMostMessages, kMostShares / std::max<double>(1, static_cast<double>(flows_.classes())));
    double rounds = std::clamp(std::floor(most / messages), kLeastRounds, kMostRounds);
    if (cluster_.is_synchronous && workers <= kLongestCycle) rounds = std::min(rounds, 1 + workers);
    whole_run_ = std::ceil(cluster_.window_steps * workers) + (cluster_.is_synchronous ? workers : 1);
    steps_ = static_cast<std::size_t>(std::min(whole_run_, rounds * workers));
  }

  void schedule(double at, What what, std::size_t index) { events_.push({at, scheduled_++, what, index}); }

  void handle(const Event& event) {
    switch (event.what) {
      case What::kBegin:
        return begin(event.index);
      case What::kRequest:
        return read_variables(lanes_[event.index]);
      case What::kReady:
        return send(lanes_[event.index]);
      case What::kDone:
        return end(event.index);
    }
  }

  void begin(std::size_t w) {
    if (begun_ >= steps_ && (measured_ > workers_.size() || is_all_begun())) {
      if (++idle_ == workers_.size() || warm_ == workers_.size()) stop();
      return;
    }
    ++begun_;
    ServedWorker& worker = workers_[w];
    begin_step(worker, now_, others_);
    worker.to_push = pushed_;
    worker.acknowledged = now_;
    worker.arrived.assign(variables_.size(), 0);
    for (std::size_t s = 0; s < pulled_.size(); ++s) {
      const std::size_t lane = lane_of(w, s, false);
      for (const std::size_t v : pulled_[s]) worker.arrived[v] = kEndless;
      if (!pulled_[s].empty()) schedule(now_ + cluster_.overhead_s + latency(lanes_[lane]), What::kRequest, lane);
    }
    go_on(w);
  }

  bool is_all_begun() const { return static_cast<double>(begun_) >= whole_run_; }
  void stop() {
    if (std::exchange(is_over_, true)) return;
    run_.end = now_;
    cut_traffic();
  }

  double latency(const Lane& lane) const { return lane.is_local() ? 0 : cluster_.latency_s; }
  /// Of a core, for one of the sketched workers' variables.
  double server_time(double bytes) const { return (cluster_.variable_s + cluster_.byte_s * bytes) * others_; }

  void read_variables(Lane& lane) {
    CorePool& cores = pools_[lane.from];
    for (const std::size_t v : pulled_[lane.server]) {
      const double bytes = variables_[v].pulled_bytes;
      lane.queue.push_back({cores.run(Seconds{now_}, Seconds{server_time(bytes)}).end.value(), bytes, v});
    }
    std::stable_sort(lane.queue.begin(), lane.queue.end(),
                     [](const Message& a, const Message& b) { return a.ready < b.ready; });
    wait_for_next(lane);
  }

  void wait_for_next(Lane& lane) {
    schedule(std::max(now_, lane.queue[lane.next].ready), What::kReady,
             static_cast<std::size_t>(&lane - lanes_.data()));
  }

  void enqueue(Lane& lane, const Message& message) {
    lane.queue.push_back(message);
    if (!lane.is_busy && lane.next + 1 == lane.queue.size()) wait_for_next(lane);
  }

  /// The next message of a lane that is free.
  void send(Lane& lane) {
    if (lane.is_local()) return end_message(lane);
    lane.is_busy = true;
    flows_.start(lane.flow_class, static_cast<std::size_t>(&lane - lanes_.data()), lane.queue[lane.next].bytes, now_);
  }

  void end_message(Lane& lane) {
    const Message message = lane.queue[lane.next++];
    lane.is_busy = false;
    if (!lane.is_waiting()) {
      lane.queue.clear();
      lane.next = 0;
    } else if (lane.queue[lane.next].ready <= now_ && !lane.is_local()) {
      send(lane);
    } else
      wait_for_next(lane);
    if (lane.is_push)
      apply(lane, message);
    else
      deliver(lane, message);
  }

  void deliver(const Lane& lane, const Message& value) {
    ServedWorker& worker = workers_[lane.worker];
    worker.arrived[value.variable] = copy(worker.to_gpu, now_ + latency(lane), value.bytes, run_.receive, others_);
    go_on(lane.worker);
  }

  void go_on(std::size_t w) {
    ServedWorker& worker = workers_[w];
    const auto complete = [&](std::size_t v, double ready) {
      const double bytes = variables_[v].pushed_bytes;
      const double on_host = copy(worker.from_gpu, ready, bytes, run_.transmit, others_);
      enqueue(lanes_[lane_of(w, static_cast<std::size_t>(variables_[v].server), true)], {on_host, bytes, v});
    };
    const bool was_computing = worker.kernel < kernels_.size();
    compute(worker, machine_of_worker(w) == 0 ? 1 / chiefs_ : 0, complete);
    if ((was_computing || kernels_.empty()) && worker.kernel == kernels_.size() && pushed_ == 0)
      schedule(std::max(worker.host, worker.gpu), What::kDone, w);
  }

  void apply(const Lane& lane, const Message& gradient) {
    const double split = gradient.bytes > cluster_.split_above_bytes ? cluster_.split_update_s : 0;
    const bool is_last = cluster_.is_synchronous && ++applied_[gradient.variable] == workers_.size();
    const double more = split + (is_last ? cluster_.update_s : 0), at = now_ + latency(lane);
    const Seconds applied = pools_[lane.to].run(Seconds{at}, Seconds{server_time(gradient.bytes) + more}).end;
    ServedWorker& worker = workers_[lane.worker];
    worker.acknowledged = std::max(worker.acknowledged, applied.value() + latency(lane));
    if (--worker.to_push == 0) schedule(worker.acknowledged, What::kDone, lane.worker);
  }

  /// What crosses the chief's NICs is cut at the two ends of what is repeated.
  void cut_traffic() {
    receive_.cut(now_, run_.receive);
    transmit_.cut(now_, run_.transmit);
  }

  void end(std::size_t w) {
    if (is_over_) return;
    ServedWorker& worker = workers_[w];
    const double length = now_ - worker.ended;
    lengths_ += length;
    ++measured_;
    // Samples are taken from when all have done a step until one finds none to do; of the whole run if that is before.
    if (worker.steps == 0 && idle_ == 0 && ++warm_ == workers_.size()) {
      run_.begin = now_;
      cut_traffic();
      lengths_ = length;
      measured_ = 1;
    }
    ++worker.steps;
    worker.ended = now_;
    if (!cluster_.is_synchronous) return begin(w);
    if (is_all_begun()) return stop();
    held_.push_back(w);
    if (held_.size() < workers_.size()) return;
    std::rotate(held_.begin(), held_.end() - 1, held_.end());
    std::fill(applied_.begin(), applied_.end(), 0);
    for (const std::size_t held : std::exchange(held_, {})) begin(held);
  }

  std::vector<std::vector<std::size_t>> pulled_;  // [servers] variables, in the order in which they are read
  std::vector<ServedWorker> workers_;
  double others_ = 1;             // workers that each of them stands for
  std::size_t workers_here_ = 1;  // of a machine
  double chiefs_ = 0;             // of the chief's machine
  std::vector<CorePool> pools_;   // [machines]
  FlowClasses flows_;
  std::vector<std::size_t> applied_;  // [variables] gradients, of a synchronous step
  std::vector<Lane> lanes_;           // see lane_of()
  std::vector<std::size_t> held_;     // workers that have ended a synchronous step, in that order
  std::size_t pushed_ = 0;            // variables
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::size_t scheduled_ = 0;
  double whole_run_ = 0;  // steps
  std::size_t steps_ = 0, begun_ = 0;
  std::size_t warm_ = 0;      // workers that have ended a step
  std::size_t idle_ = 0;      // that have none left to begin
  std::size_t measured_ = 0;  // steps that have ended since samples began, or all of them
  double lengths_ = 0;        // of them
  NicRate receive_, transmit_;
  double now_ = 0;
  bool is_over_ = false;
};

/// Averages over sampling periods of steps in a row, during `length` from `from` on.
class Series {
 public:
  Series(double period, double from, double length)
      : period_{period}, until_{from + length}, first_{static_cast<std::size_t>(std::ceil(from / period - kRounding))} {
    sums_.resize(std::max(first_ + 1, static_cast<std::size_t>(until_ / period + kRounding)) - first_);
  }

  /// Once, or again after every `repeats_after`.
  void add(const Load& load, double repeats_after) {
    const double length = load.end - load.start;
    if (!(length > 0) || load.start >= until_) return;
    RatePulses pulses{.start = load.start, .length = length, .rate = load.amount / length / period_};
    if (repeats_after < until_) {
      pulses.every = repeats_after;
      pulses.count = static_cast<std::int64_t>(std::ceil((until_ - load.start) / repeats_after));
    }
    if (length <= repeats_after) return add_to_samples(pulses, period_, first_, sums_, kRounding);
    for (std::int64_t i = 0; i < pulses.count; ++i)
      add_to_samples({.start = pulses.start_of(i), .length = length, .rate = pulses.rate}, period_, first_, sums_,
                     kRounding);
  }
  std::span<const double> values() const { return sums_; }

 private:
  double period_, until_;
  std::size_t first_;         // period
  std::vector<double> sums_;  // of it and those after it
};

}  // namespace

int machine_of_server(int server, int servers, int machines) {
  const int each = servers / machines, with_more = servers % machines;
  if (server < with_more * (each + 1)) return server / (each + 1);
  return with_more + (server - with_more * (each + 1)) / std::max(1, each);
}

SketchedMetrics sketch_metrics(const std::vector<SketchedKernel>& kernels,
                               const std::vector<SketchedVariable>& variables, const SketchedCluster& cluster) {
  const SketchedRun run = cluster.servers > 0 ? ServerSketch{kernels, variables, cluster}.run()
                                              : RingSketch{kernels, variables, cluster}.run();
  const double step = run.step_s, window = run.length() * (1 + run.repeats);
  if (!(step > 0) || !(window > 0) || !std::isfinite(window)) return {std::vector<double>(label_names().size()), 0};
  const double most = kMostSteps * std::min(step, run.length());
  const double period = std::min(std::max(cluster.period_s, step / kMostSamples), 0.5 * most);
  const double drawn = std::max(2 * period, std::min({window, kMostSamples * period, most}));
  Series gpu{period, run.begin, drawn}, memory = gpu, receive = gpu, transmit = gpu;
  const auto draw = [&](Series& series, const std::vector<Load>& loads) {
    for (const Load& load : loads)
      if (load.start < run.end) series.add(load, load.start >= run.begin && run.repeats > 0 ? run.length() : kEndless);
  };
  draw(gpu, run.gpu);
  draw(memory, run.memory);
  draw(receive, run.receive);
  draw(transmit, run.transmit);

  const BurstThresholds thresholds;
  const auto bursts_of = [&](const Series& series, double threshold) {
    const Bursts bursts = find_bursts(series.values(), Seconds{period}, threshold);
    const double whole = bursts.gaps == 0 ? window / drawn : 1;  // never idle: as long as the window
    return BurstLabels{bursts.idle.value(), bursts.active.value() * whole, bursts.peak};
  };
  const auto threshold_of = [&](const Series& rate) {
    return thresholds.share_of_maximum * *std::max_element(rate.values().begin(), rate.values().end());
  };
  const auto mean_of = [](const Series& series) {
    return std::accumulate(series.values().begin(), series.values().end(), 0.0) /
           static_cast<double>(series.values().size());
  };
  const RunLabels labels{.memory = bursts_of(memory, thresholds.utilization),
                         .gpu = bursts_of(gpu, thresholds.utilization),
                         .receive = bursts_of(receive, threshold_of(receive)),
                         .transmit = bursts_of(transmit, threshold_of(transmit)),
                         .step_time_s = step,
                         .receive_mean_bytes_per_s = mean_of(receive),
                         .transmit_mean_bytes_per_s = mean_of(transmit)};
  // of whole samples
  return {values_of(labels), static_cast<double>(gpu.values().size()) * period * window / drawn};
}

}  // namespace rehearse
