#include "predictor/step_sketch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "predictor/dataset.hpp"
#include "sim/engine/core_pool.hpp"
#include "sim/engine/resource_profile.hpp"

namespace rehearse {

namespace {

constexpr int kRounds = 2;           // of steps, until asynchronous workers no longer wait for each other
constexpr int kBackgrounds = 4;      // iterations of what workers that drift apart find on their ways
constexpr double kApart = 1.1;       // ratio of step times above which they do
constexpr double kRounding = 1e-9;   // of a period: not there
constexpr double kMostSteps = 1000;  // that are drawn
constexpr double kMostSamples = 60'000;
constexpr int kMostSketched = 16;  // workers; each of them stands for as many

/// Something of which `amount` is spread evenly over a time.
struct Spread {
  double start = 0, end = 0, amount = 0;
};

/// A variable on its way between a worker and the servers of a machine.
struct Transfer {
  int machine = 0;
  Spread on_wire;
};

/// A message that waits for its connection.
struct Message {
  double ready = 0;
  double bytes = 0;
  int variable = 0;
};

struct Arrival {
  double at = 0;
  int variable = 0;
  bool operator<(const Arrival& other) const { return at < other.at; }
};

struct WorkerStep {
  std::size_t worker = 0;
  double start = 0, begin = 0, end = 0;  // begin: the samples are on the GPU
  std::vector<Spread> gpu, memory, to_gpu, from_gpu;
  std::vector<Transfer> pulls, pushes;
  std::vector<double> arrived;  // [variables] when on the GPU
  std::vector<Arrival> pushed;  // gradients at the servers

  double length() const { return end - start; }
};

/// Mean number of connections that others keep busy, by machine.
struct Background {
  std::vector<double> out, in;
};

/// One step of each sketched worker, from where it starts.
class StepSketch {
 public:
  StepSketch(const std::vector<SketchedKernel>& kernels, const std::vector<SketchedVariable>& variables,
             const SketchedCluster& cluster)
      : kernels_{kernels}, variables_{variables}, cluster_{cluster} {
    workers_here_ = std::max(1, cluster.workers / std::max(1, cluster.machines));
    sketched_ = std::clamp(cluster.workers, 1, kMostSketched);
  }

  bool is_one_machine() const { return cluster_.machines == 1 && (cluster_.is_colocated || cluster_.servers == 0); }
  bool is_on_first_machine(const WorkerStep& step) const { return machine_of_worker(step.worker) == 0; }
  std::size_t sketched() const { return static_cast<std::size_t>(sketched_); }

  /// All of them at once, from `starts` on: [sketched].
  std::vector<WorkerStep> steps_from(const std::vector<double>& starts) const {
    std::vector<WorkerStep> steps(sketched());
    for (std::size_t w = 0; w < sketched(); ++w) steps[w].worker = w, steps[w].start = starts[w];
    sketch(steps, {.others = static_cast<double>(cluster_.workers) / sketched_,
                   .background = {std::vector<double>(machines()), std::vector<double>(machines())}});
    return steps;
  }

  /// Each group together, in the background that the other groups were in `before`.
  std::vector<WorkerStep> steps_apart(const std::vector<WorkerStep>& before,
                                      const std::vector<std::vector<std::size_t>>& groups,
                                      const std::vector<double>& starts) const {
    std::vector<WorkerStep> apart(sketched());
    for (const std::vector<std::size_t>& group : groups) {
      std::vector<WorkerStep> steps;
      for (const std::size_t w : group) {
        steps.emplace_back().worker = w;
        steps.back().start = starts[w];
      }
      sketch(steps, {.others = 1, .background = background_of(before, group)});
      for (std::size_t i = 0; i < group.size(); ++i) apart[group[i]] = std::move(steps[i]);
    }
    return apart;
  }

 private:
  using Queues = std::vector<std::vector<Message>>;  // [servers], at least one

  /// Who shares with the workers that are sketched.
  struct Company {
    double others = 1;  // workers that one of them stands for
    Background background;
  };

  void sketch(std::vector<WorkerStep>& steps, const Company& company) const {
    if (cluster_.servers > 0) {
      exchange(steps, company);
      apply(steps, company);
      if (!cluster_.is_synchronous) return;
    } else {
      for (WorkerStep& step : steps) {
        load(step, {});
        reduce_in_ring(step, compute(step).front());
      }
    }
    double last = 0;
    for (const WorkerStep& step : steps) last = std::max(last, step.end);
    for (WorkerStep& step : steps) step.end = last;
  }

  Background background_of(const std::vector<WorkerStep>& steps, const std::vector<std::size_t>& of) const {
    Background background{std::vector<double>(machines()), std::vector<double>(machines())};
    for (const WorkerStep& step : steps) {
      const double workers = static_cast<double>(cluster_.workers) / sketched_ -
                             (std::find(of.begin(), of.end(), step.worker) != of.end() ? 1 : 0);
      const auto own = static_cast<std::size_t>(machine_of_worker(step.worker));
      const auto add = [&](const Transfer& transfer, std::vector<double>& there, std::vector<double>& here) {
        const double busy = workers * (transfer.on_wire.end - transfer.on_wire.start) / step.length();
        there[static_cast<std::size_t>(transfer.machine)] += busy;
        here[own] += busy;
      };
      for (const Transfer& pull : step.pulls) add(pull, background.out, background.in);
      for (const Transfer& push : step.pushes) add(push, background.in, background.out);
    }
    return background;
  }

  int machine_of_worker(std::size_t worker) const {
    return static_cast<int>(worker) / workers_here_ % std::max(1, cluster_.machines);
  }
  int machine_of_server(std::size_t server) const {
    return cluster_.is_colocated ? static_cast<int>(server) % cluster_.machines
                                 : worker_machines() + static_cast<int>(server);
  }
  /// Those of sketched workers, and of servers beside workers.
  int worker_machines() const {
    return std::min(cluster_.machines, std::max(sketched_, cluster_.is_colocated ? cluster_.servers : 0));
  }
  std::size_t machines() const {
    return static_cast<std::size_t>(worker_machines() + (cluster_.is_colocated ? 0 : cluster_.servers));
  }

  /// One direction of a connection between a worker and a server: one message at a time.
  struct Lane {
    std::size_t step = 0;  // of the worker
    bool is_push = false;
    int from = 0, to = 0;  // machines
    std::vector<Message> queue;
    std::size_t next = 0;
    double left = 0, started = 0;  // bytes of the head; when it began
    bool is_busy = false;
  };

  /// Pulls, and pushes of the gradients that are computed with them.
  void exchange(std::vector<WorkerStep>& steps, const Company& company) const {
    std::vector<Lane> lanes;
    std::vector<std::size_t> to_come(steps.size());  // variables that each worker has not got
    std::vector<std::vector<Arrival>> arrivals(steps.size());
    const auto add_lanes = [&](std::size_t w, bool is_push, Queues queues) {
      const int own = machine_of_worker(steps[w].worker);
      for (std::size_t s = 0; s < queues.size(); ++s) {
        const int other = machine_of_server(s);
        std::stable_sort(queues[s].begin(), queues[s].end(),
                         [](const Message& a, const Message& b) { return a.ready < b.ready; });
        if (own == other) {
          for (const Message& message : queues[s])
            (is_push ? steps[w].pushed : arrivals[w]).push_back({message.ready, message.variable});
        } else if (!queues[s].empty()) {
          if (!is_push) to_come[w] += queues[s].size();
          lanes.push_back({.step = w,
                           .is_push = is_push,
                           .from = is_push ? own : other,
                           .to = is_push ? other : own,
                           .queue = std::move(queues[s])});
        }
      }
    };
    const auto compute_and_push = [&](std::size_t w) {
      load(steps[w], std::move(arrivals[w]));
      add_lanes(w, true, compute(steps[w]));
    };
    std::vector<Queues> values = read_variables(steps, company);
    for (std::size_t w = 0; w < steps.size(); ++w) add_lanes(w, false, std::move(values[w]));
    for (std::size_t w = 0; w < steps.size(); ++w)
      if (to_come[w] == 0) compute_and_push(w);

    std::vector<double> out, in, rates;  // connections in use
    for (double now = 0;;) {
      double next = std::numeric_limits<double>::infinity();
      out = company.background.out;
      in = company.background.in;
      rates.resize(lanes.size());
      for (Lane& lane : lanes) {
        if (!lane.is_busy && lane.next < lane.queue.size()) {
          lane.is_busy = lane.queue[lane.next].ready <= now;
          lane.left = lane.queue[lane.next].bytes;
          lane.started = now;
          if (!lane.is_busy) next = std::min(next, lane.queue[lane.next].ready);
        }
        if (!lane.is_busy) continue;
        out[static_cast<std::size_t>(lane.from)] += lane.is_push ? 1 : company.others;
        in[static_cast<std::size_t>(lane.to)] += lane.is_push ? company.others : 1;
      }
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        if (!lanes[i].is_busy) continue;
        const double sharing =
            std::max(out[static_cast<std::size_t>(lanes[i].from)], in[static_cast<std::size_t>(lanes[i].to)]);
        rates[i] = std::min(cluster_.flow_Bps, cluster_.nic_Bps / sharing);
        next = std::min(next, now + lanes[i].left / rates[i]);
      }
      if (!std::isfinite(next)) return;
      for (std::size_t i = 0, count = lanes.size(); i < count; ++i) {
        Lane& lane = lanes[i];
        if (!lane.is_busy) continue;
        const bool has_ended = now + lane.left / rates[i] <= next;
        lane.left -= rates[i] * (next - now);
        if (!has_ended) continue;
        lane.is_busy = false;
        const Message message = lane.queue[lane.next++];
        const std::size_t w = lane.step;
        const Transfer transfer{lane.is_push ? lane.to : lane.from, {lane.started, next, message.bytes}};
        const Arrival arrival{next + cluster_.latency_s, message.variable};
        (lane.is_push ? steps[w].pushes : steps[w].pulls).push_back(transfer);
        (lane.is_push ? steps[w].pushed : arrivals[w]).push_back(arrival);
        if (!lane.is_push && --to_come[w] == 0) compute_and_push(w);  // invalidates lane
      }
      now = next;
    }
  }

  /// Of a core, for one of the sketched workers' variables.
  double server_time(double bytes, const Company& company) const {
    return (cluster_.variable_s + cluster_.byte_s * bytes) * company.others;
  }
  double latency(const WorkerStep& step, int machine) const {
    return machine_of_worker(step.worker) == machine ? 0 : cluster_.latency_s;
  }

  /// The servers' cores read the variables for all workers, in the order of their requests: [steps].
  std::vector<Queues> read_variables(const std::vector<WorkerStep>& steps, const Company& company) const {
    struct Request {
      double at;
      std::size_t step, server;
    };
    const auto servers = static_cast<std::size_t>(cluster_.servers);
    std::vector<Request> requests;
    for (std::size_t w = 0; w < steps.size(); ++w)
      for (std::size_t s = 0; s < servers; ++s)
        requests.push_back({steps[w].start + cluster_.overhead_s + latency(steps[w], machine_of_server(s)), w, s});
    std::stable_sort(requests.begin(), requests.end(), [](const Request& a, const Request& b) { return a.at < b.at; });
    std::vector<std::vector<int>> pulled(servers);
    for (std::size_t v = 0; v < variables_.size(); ++v)
      if (variables_[v].pulled_bytes > 0)
        pulled[static_cast<std::size_t>(variables_[v].server)].push_back(static_cast<int>(v));
    std::vector<Queues> values(steps.size(), Queues(servers));
    std::vector<CorePool> pools(machines(), CorePool{std::max(1, cluster_.cores)});
    for (const Request& request : requests)
      for (const int v : pulled[request.server]) {
        const double bytes = variables_[static_cast<std::size_t>(v)].pulled_bytes;
        CorePool& cores = pools[static_cast<std::size_t>(machine_of_server(request.server))];
        const double read = cores.run(Seconds{request.at}, Seconds{server_time(bytes, company)}).end.value();
        values[request.step][request.server].push_back({read, bytes, v});
      }
    return values;
  }

  /// The samples and what has arrived at the worker's host, over its GPU's link.
  void load(WorkerStep& step, std::vector<Arrival> arrivals) const {
    std::stable_sort(arrivals.begin(), arrivals.end());
    const double requested = step.start + cluster_.overhead_s;
    double free = step.begin = requested + cluster_.input_bytes / cluster_.gpu_link_Bps;
    step.to_gpu.push_back({requested, free, cluster_.input_bytes});
    step.arrived.assign(variables_.size(), 0);
    for (const Arrival& arrival : arrivals) {
      const double bytes = variables_[static_cast<std::size_t>(arrival.variable)].pulled_bytes;
      const double start = std::max(free, arrival.at);
      free = start + bytes / cluster_.gpu_link_Bps;
      step.to_gpu.push_back({start, free, bytes});
      step.arrived[static_cast<std::size_t>(arrival.variable)] = free;
    }
  }

  /// Returns the gradients for each server, with the dates at which they are on the host; without servers, complete.
  Queues compute(WorkerStep& step) const {
    double host = step.begin, gpu = host;
    std::vector<double> ends;
    for (const SketchedKernel& kernel : kernels_) {
      for (int v = kernel.first_variable; v < kernel.first_variable + kernel.variables; ++v)
        host = std::max(host, step.arrived[static_cast<std::size_t>(v)]);
      host += cluster_.dispatch_s;
      const double start = std::max(gpu, host);
      gpu = start + kernel.time_s;
      step.gpu.push_back({start, gpu, kernel.time_s});
      step.memory.push_back({start, gpu, kernel.memory_s});
      ends.push_back(gpu);
    }
    step.end = std::max(gpu, host);

    std::vector<std::pair<int, int>> gradients;  // kernel, variable
    for (std::size_t v = 0; v < variables_.size(); ++v)
      if (variables_[v].gradient >= 0) gradients.emplace_back(variables_[v].gradient, static_cast<int>(v));
    std::sort(gradients.begin(), gradients.end());
    Queues queues(static_cast<std::size_t>(std::max(1, cluster_.servers)));
    double free = 0;
    for (const auto& [kernel, v] : gradients) {
      const SketchedVariable& variable = variables_[static_cast<std::size_t>(v)];
      const double bytes = variable.pushed_bytes, complete = ends[static_cast<std::size_t>(kernel)];
      if (cluster_.servers == 0) {
        queues.front().push_back({complete, bytes, v});
        continue;
      }
      const double start = std::max(free, complete);
      free = start + bytes / cluster_.gpu_link_Bps;
      step.from_gpu.push_back({start, free, bytes});
      queues[static_cast<std::size_t>(variable.server)].push_back({free, bytes, v});
    }
    return queues;
  }

  /// The cores of the servers apply what all workers push; a step ends when the last of it has been acknowledged.
  void apply(std::vector<WorkerStep>& steps, const Company& company) const {
    struct Job {
      double at;
      std::size_t step, variable;
    };
    std::vector<Job> jobs;
    for (std::size_t w = 0; w < steps.size(); ++w)
      for (const Arrival& arrival : steps[w].pushed)
        jobs.push_back({arrival.at, w, static_cast<std::size_t>(arrival.variable)});
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.at < b.at; });
    std::vector<CorePool> pools(machines(), CorePool{std::max(1, cluster_.cores)});
    std::vector<int> applied(variables_.size());
    for (const Job& job : jobs) {
      const SketchedVariable& variable = variables_[job.variable];
      const int machine = machine_of_server(static_cast<std::size_t>(variable.server));
      const double split = variable.pushed_bytes > cluster_.split_above_B ? cluster_.split_update_s : 0;
      const bool is_last = cluster_.is_synchronous && ++applied[job.variable] == static_cast<int>(steps.size());
      WorkerStep& step = steps[job.step];
      const double more = split + (is_last ? cluster_.update_s : 0);
      CorePool& cores = pools[static_cast<std::size_t>(machine)];
      const Seconds end = cores.run(Seconds{job.at}, Seconds{server_time(variable.pushed_bytes, company) + more}).end;
      step.end = std::max(step.end, end.value() + latency(step, machine));
    }
  }

  /// Each worker sends and receives 2 (n - 1) / n of the gradients; moving averages, which are never pulled, stay.
  void reduce_in_ring(WorkerStep& step, std::vector<Message> messages) const {
    if (cluster_.workers == 1) return;
    const double share = 2.0 * (cluster_.workers - 1) / cluster_.workers;
    const SketchedRing& ring = cluster_.ring;
    const double links = is_one_machine() ? cluster_.gpu_link_Bps : cluster_.nic_Bps;
    const double byte_s = ring.byte_s > 0 ? ring.byte_s : share / links;
    std::erase_if(messages, [&](const Message& message) {
      return variables_[static_cast<std::size_t>(message.variable)].pulled_bytes == 0;
    });
    double free = ring.waits_for_backward ? step.end : 0;
    for (std::size_t i = 0; i < messages.size();) {
      const Message bucket = next_bucket(messages, i, free);
      const double start = std::max(free, bucket.ready), bytes = bucket.bytes * share;
      free = start + ring.latency_s + bucket.bytes * byte_s;
      if (is_one_machine()) {
        step.to_gpu.push_back({start, free, bytes});
        step.from_gpu.push_back({start, free, bytes});
      } else {
        step.pushes.push_back({-1, {start, free, bytes / workers_here_}});
        step.pulls.push_back({-1, {start, free, bytes / workers_here_}});
      }
    }
    step.end = std::max(step.end, free);
  }

  /// Of the gradients from number `i` on, which it moves; the ring is free from `free` on.
  Message next_bucket(const std::vector<Message>& messages, std::size_t& i, double free) const {
    const SketchedRing& ring = cluster_.ring;
    Message bucket = messages[i++];
    if (ring.cycle_s > 0) {
      bucket.ready = std::ceil(std::max(free, bucket.ready) / ring.cycle_s) * ring.cycle_s;
      for (; i < messages.size() && messages[i].ready <= bucket.ready; ++i) {
        if (ring.bucket_B > 0 && bucket.bytes + messages[i].bytes > ring.bucket_B) break;
        bucket.bytes += messages[i].bytes;
      }
      return bucket;
    }
    for (; i < messages.size() && bucket.bytes < ring.bucket_B; ++i) {
      bucket.bytes += messages[i].bytes;
      bucket.ready = messages[i].ready;
    }
    return bucket;
  }

  const std::vector<SketchedKernel>& kernels_;
  const std::vector<SketchedVariable>& variables_;
  const SketchedCluster& cluster_;
  int sketched_ = 1;      // workers
  int workers_here_ = 1;  // of a machine
};

/// Averages over sampling periods of steps in a row, during `length` from `from` on.
class Series {
 public:
  Series(double period, double from, double length)
      : period_{period}, until_{from + length}, first_{static_cast<std::size_t>(std::ceil(from / period - kRounding))} {
    sums_.resize(std::max(first_ + 1, static_cast<std::size_t>(until_ / period + kRounding)));
  }

  /// Of a worker whose steps take `length`.
  void add(const Spread& spread, double length, double factor) {
    for (double offset = 0; offset + spread.start < until_; offset += length)
      add(offset + spread.start, offset + spread.end, spread.amount * factor);
  }
  std::span<const double> values() const { return std::span{sums_}.subspan(first_); }

 private:
  void add(double start, double end, double amount) {
    const auto first = static_cast<std::size_t>(start / period_);
    const auto last = std::min(sums_.size(), static_cast<std::size_t>(end / period_) + 1);
    const double density = end > start ? amount / (end - start) : 0;
    for (std::size_t i = first; i < last; ++i) {
      const double from = std::max(start, static_cast<double>(i) * period_);
      const double to = std::min(end, static_cast<double>(i + 1) * period_);
      if (to - from > kRounding * period_) sums_[i] += density * (to - from) / period_;
    }
  }

  double period_, until_;
  std::size_t first_;
  std::vector<double> sums_;
};

/// Workers whose steps take about as long, the fastest first.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<WorkerStep>& workers) {
  std::vector<std::size_t> order(workers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return workers[a].length() < workers[b].length(); });
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t w : order) {
    const bool joins = !groups.empty() && workers[w].length() <= kApart * workers[groups.back().front()].length();
    if (!joins) groups.emplace_back();
    groups.back().push_back(w);
  }
  for (std::vector<std::size_t>& group : groups) std::sort(group.begin(), group.end());
  return groups;
}

/// Beyond the first step: workers that are equally fast come to start one after the other, in the same order in each
/// step, and so wait less for each other; others meet by chance.
void go_on_asynchronously(const StepSketch& sketch, std::vector<WorkerStep>& workers) {
  const std::vector<std::vector<std::size_t>> groups = groups_of(workers);
  const auto next_starts = [&] {
    std::vector<double> starts(workers.size());
    for (const std::vector<std::size_t>& group : groups) {
      double first = std::numeric_limits<double>::infinity();
      for (const std::size_t w : group) first = std::min(first, workers[w].end);
      for (const std::size_t w : group) starts[w] = workers[w].end - first;
    }
    return starts;
  };
  if (groups.size() == 1) {
    for (int round = 0; round < kRounds; ++round) workers = sketch.steps_from(next_starts());
    return;
  }
  const std::vector<double> starts = next_starts();
  for (int i = 0; i < kBackgrounds; ++i) workers = sketch.steps_apart(workers, groups, starts);
}

}  // namespace

std::vector<double> sketch_labels(const std::vector<SketchedKernel>& kernels,
                                  const std::vector<SketchedVariable>& variables, const SketchedCluster& cluster) {
  const StepSketch sketch{kernels, variables, cluster};
  std::vector<WorkerStep> workers = sketch.steps_from(std::vector<double>(sketch.sketched()));
  if (!cluster.is_synchronous && cluster.servers > 0) go_on_asynchronously(sketch, workers);
  // A run ends when all workers together have done so many steps: its mean step is the harmonic mean of theirs.
  double speed = 0, shortest = std::numeric_limits<double>::infinity();
  for (const WorkerStep& step : workers) {
    speed += 1 / (step.length() * static_cast<double>(workers.size()));
    shortest = std::min(shortest, step.length());
  }
  const double mean_length = 1 / speed;
  if (!(shortest > 0) || !std::isfinite(mean_length)) return std::vector<double>(label_names().size());
  const double period = std::min(std::max(cluster.period_s, mean_length / kMostSamples), 0.5 * kMostSteps * shortest);
  const double window = cluster.window_steps * mean_length;
  const double drawn = std::max(2 * period, std::min({window, kMostSamples * period, kMostSteps * shortest}));
  Series gpu{period, mean_length, drawn}, memory = gpu, receive = gpu, transmit = gpu;
  const bool is_one = sketch.is_one_machine();
  const auto chiefs = static_cast<double>(std::count_if(
      workers.begin(), workers.end(), [&](const WorkerStep& step) { return sketch.is_on_first_machine(step); }));
  const double others = static_cast<double>(cluster.workers) / static_cast<double>(workers.size());
  for (const WorkerStep& step : workers) {
    const bool is_here = sketch.is_on_first_machine(step);
    const auto add = [&](Series& series, const Spread& spread, double factor) {
      series.add(spread, step.length(), factor);
    };
    if (is_here)
      for (const Spread& spread : step.gpu) add(gpu, spread, 1 / chiefs);
    if (is_here)
      for (const Spread& spread : step.memory) add(memory, spread, 1 / chiefs);
    if (is_one) {
      for (const Spread& spread : step.to_gpu) add(receive, spread, others);
      for (const Spread& spread : step.from_gpu) add(transmit, spread, others);
      continue;
    }
    // What the first machine's workers exchange, and what its servers exchange with other machines' workers.
    for (const Transfer& pull : step.pulls)
      if (is_here || pull.machine == 0) add(is_here ? receive : transmit, pull.on_wire, is_here ? 1 : others);
    for (const Transfer& push : step.pushes)
      if (is_here || push.machine == 0) add(is_here ? transmit : receive, push.on_wire, is_here ? 1 : others);
  }

  const BurstThresholds thresholds;
  std::vector<double> labels, means;
  const auto add_bursts = [&](const Series& series, double threshold) {
    const Bursts bursts = find_bursts(series.values(), Seconds{period}, threshold);
    const double whole = bursts.gaps == 0 ? window / drawn : 1;  // never idle: as long as the window
    labels.insert(labels.end(), {bursts.idle.value(), bursts.active.value() * whole, bursts.peak});
  };
  add_bursts(memory, thresholds.utilization);
  add_bursts(gpu, thresholds.utilization);
  for (const Series* series : {&receive, &transmit}) {
    const std::span<const double> values = series->values();
    add_bursts(*series, thresholds.share_of_maximum * *std::max_element(values.begin(), values.end()));
    means.push_back(std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()));
  }
  labels.insert(labels.end(), {mean_length, means[0], means[1]});
  return labels;
}

}  // namespace rehearse
