// Asynchronous stochastic gradient descent with parameter servers. A worker's step, L being the one-way latency:
//
//   host      step_overhead
//   pull      request (L); per variable: a core of the server reads it, the connection carries it (+ L), PCIe copies it
//   to the GPU compute   kernels run as their variables arrive (compute_stream.hpp) push      per variable, as its
//   gradient is ready: PCIe, connection (+ L), a core of the server applies it done      every server acknowledges its
//   last update (L); the worker's next step begins
//
// So a step contains two round trips. Connections are per worker and server; one message is on the wire at a time, in
// each direction. Batch-normalisation moving averages are not pulled in training, but their updates are pushed.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/compute_stream.hpp"
#include "sim/engine/connection.hpp"
#include "sim/engine/core_pool.hpp"
#include "sim/engine/placement.hpp"
#include "sim/engine/strategy.hpp"

namespace rehearse {

namespace {

/// A FIFO copy engine between host memory and GPU memory.
struct CopyEngine {
  BytesPerSecond rate{};
  Seconds free_at{};
  Seconds copy(Seconds ready, Bytes size) { return free_at = std::max(free_at, ready) + size / rate; }
};

class AsynchronousParameterServer {
 public:
  explicit AsynchronousParameterServer(Cluster cluster)
      : cluster_{cluster},
        scenario_{cluster.scenario},
        variables_{cluster.scenario.workload.variables},
        clock_{cluster.clock},
        chosen_steps_{cluster.scenario.training.steps} {
    create_servers();
    create_workers();
  }

  RunRecord run() {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const Seconds start = scenario_.training.start_interval * static_cast<double>(i);
      clock_.schedule(start, [this, i] {
        Worker& worker = *workers_[i];
        cluster_.recorder.events.push_back({worker.machine, "start", {clock_.now(), clock_.now()}, ""});
        begin_step(worker);
      });
    }
    if (scenario_.training.warmup_steps == 0) open_window();
    cluster_.run();
    return collect();
  }

 private:
  struct Worker;

  struct Server {
    MachineIndex machine = 0;
    CorePool cores;
    std::vector<int> pulled;  // trainable variables placed here, in creation order
    int pushed = 0;           // variables placed here that workers push
  };

  /// A worker and one server.
  struct Link {
    std::unique_ptr<Connection> down;  // server to worker
    std::unique_ptr<Connection> up;
    Seconds latency{};
    int updates_left = 0;   // of the current step
    Seconds last_update{};  // when the latest of them is applied
  };

  struct Worker {
    Worker(int index_, MachineIndex machine_, ComputePlan plan_, CopyEngine engine, std::uint64_t seed)
        : index{index_},
          machine{machine_},
          plan{std::move(plan_)},
          to_gpu{engine},
          from_gpu{engine},
          noise{seed, "step time of worker " + std::to_string(index_)} {}
    int index;
    MachineIndex machine;
    ComputePlan plan;
    CopyEngine to_gpu;
    CopyEngine from_gpu;
    Rng noise;
    std::optional<ComputeStream> compute;
    std::vector<Link> links;  // [servers]
    std::int64_t steps = 0;   // completed
    StepSpan step;
    std::int64_t updates_at_pull = 0;
    int variables_left = 0;
    int servers_left = 0;
    bool is_training = false;
  };

  void create_servers() {
    for (std::size_t m = 0; m < cluster_.machines.size(); ++m) {
      const Machine& machine = cluster_.machines[m];
      if (machine.role == Role::kParameterServer)
        servers_.push_back({static_cast<MachineIndex>(m), CorePool{machine.cores}, {}, 0});
    }
    server_of_ = place_variables(variables_, static_cast<int>(servers_.size()), scenario_.training.strategy.placement);
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      Server& server = servers_[static_cast<std::size_t>(server_of_[v])];
      if (variables_[v].is_trainable) {
        server.pulled.push_back(static_cast<int>(v));
        ++trainable_;
      }
      ++server.pushed;
    }
  }

  void create_workers() {
    for (std::size_t m = 0; m < cluster_.machines.size(); ++m) {
      const Machine& machine = cluster_.machines[m];
      if (machine.role != Role::kWorker) continue;
      const auto index = static_cast<MachineIndex>(m);
      const Accelerator& gpu = *scenario_.groups[static_cast<std::size_t>(machine.group)].accelerator;
      const FlopsPerSecond peak = scenario_.precision == Precision::kFp16 ? gpu.peak_fp16 : gpu.peak_fp32;
      workers_.push_back(std::make_unique<Worker>(static_cast<int>(workers_.size()), index,
                                                  plan_compute(scenario_.workload, gpu, peak, scenario_.profile),
                                                  CopyEngine{gpu.host_link}, scenario_.seed));
      Worker& worker = *workers_.back();
      worker.compute.emplace(worker.plan, variables_.size(), cluster_.recorder, index,
                             [this, &worker](int variable, Seconds ready) { push(worker, variable, ready); });
      worker.links.resize(servers_.size());
      for (std::size_t s = 0; s < servers_.size(); ++s) {
        Link& link = worker.links[s];
        link.latency = cluster_.network.latency(index, servers_[s].machine);
        link.down = std::make_unique<Connection>(
            clock_, cluster_.network, cluster_.recorder, servers_[s].machine, index,
            [this, &worker](const Connection::Message& message) { variable_arrived(worker, message); });
        link.up = std::make_unique<Connection>(
            clock_, cluster_.network, cluster_.recorder, index, servers_[s].machine,
            [this, &worker, s](const Connection::Message& message) { update_arrived(worker, s, message); });
      }
    }
  }

  void begin_step(Worker& worker) {
    if (started_steps_ == chosen_steps_) {
      close_window();
      return;
    }
    ++started_steps_;
    worker.is_training = true;
    worker.updates_at_pull = updates_;
    worker.step = {.machine = worker.machine, .step = worker.steps, .span = {clock_.now(), {}}};
    worker.variables_left = trainable_;
    worker.servers_left = 0;
    const Seconds requested = clock_.now() + scenario_.profile.host.step_overhead;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      Link& link = worker.links[s];
      link.updates_left = servers_[s].pushed;
      link.last_update = {};
      if (servers_[s].pushed == 0) continue;  // more servers than variables
      ++worker.servers_left;
      clock_.schedule(requested + link.latency, [this, &worker, s] { serve_pull(worker, s); });
    }
    const Seconds input_ready = worker.to_gpu.copy(requested, scenario_.workload.input_bytes);
    worker.compute->begin_step(input_ready, slowdown(worker));
  }

  /// Lognormal with mean 1 and the coefficient of variation c of the scenario: exp(sigma z - sigma^2 / 2), sigma^2 =
  /// ln(1 + c^2).
  double slowdown(Worker& worker) {
    const double variation = scenario_.training.step_time_variation;
    if (variation == 0) return 1;
    const double variance = std::log1p(variation * variation);
    return std::exp(std::sqrt(variance) * worker.noise.normal() - variance / 2);
  }

  Seconds server_time(Bytes size) const {
    const ServerParameters& server = scenario_.profile.servers;
    return server.time_per_variable + server.time_per_byte * as_double(size);
  }

  void serve_pull(Worker& worker, std::size_t s) {
    Server& server = servers_[s];
    for (const int variable : server.pulled) {
      const Bytes size = bytes(variable);
      const CorePool::Slot slot = server.cores.run(clock_.now(), server_time(size));
      record(server, slot, variable, false);
      clock_.schedule(slot.end, [this, &worker, s, variable] {
        worker.links[s].down->send({variable, worker.steps, bytes(variable)});
      });
    }
  }

  void variable_arrived(Worker& worker, const Connection::Message& message) {
    const Seconds on_gpu = worker.to_gpu.copy(clock_.now(), message.size);
    if (--worker.variables_left == 0) worker.step.last_pull = on_gpu;
    worker.compute->variable_arrived(message.variable, on_gpu);
  }

  void push(Worker& worker, int variable, Seconds ready) {
    const Seconds on_host = worker.from_gpu.copy(ready, bytes(variable));
    clock_.schedule(on_host, [this, &worker, variable] {
      const auto s = static_cast<std::size_t>(server_of_[static_cast<std::size_t>(variable)]);
      worker.links[s].up->send({variable, worker.steps, bytes(variable)});
    });
  }

  void update_arrived(Worker& worker, std::size_t s, const Connection::Message& message) {
    Link& link = worker.links[s];
    Seconds duration = server_time(message.size);
    if (message.size > scenario_.profile.servers.split_update_threshold)
      duration += scenario_.profile.servers.time_per_split_update;
    const CorePool::Slot slot = servers_[s].cores.run(clock_.now(), duration);
    record(servers_[s], slot, message.variable, true);
    link.last_update = std::max(link.last_update, slot.end);
    if (--link.updates_left > 0) return;
    clock_.schedule(link.last_update + link.latency, [this, &worker] {
      if (--worker.servers_left == 0) end_step(worker);
    });
  }

  void end_step(Worker& worker) {
    worker.is_training = false;
    ++updates_;
    ++worker.steps;
    StepSpan& step = worker.step;
    step.span.end = clock_.now();
    step.compute_end = worker.compute->end();
    step.global_step = updates_;
    step.staleness = updates_ - 1 - worker.updates_at_pull;
    cluster_.recorder.steps.push_back(step);
    end_ = clock_.now();
    if (cluster_.on_update) cluster_.on_update(updates_);
    if (worker.steps == scenario_.training.warmup_steps && ++warm_workers_ == workers_.size()) open_window();
    const Seconds pause = checkpoint_pause(worker);
    if (pause == Seconds{}) {
      begin_step(worker);
    } else {
      cluster_.recorder.events.push_back({worker.machine,
                                          "checkpoint",
                                          {clock_.now(), clock_.now() + pause},
                                          "after step " + std::to_string(updates_)});
      clock_.schedule_in(pause, [this, &worker] { begin_step(worker); });
    }
  }

  /// The chief, worker 0, writes a checkpoint at the end of its first step after every `every_steps` updates of the
  /// cluster.
  Seconds checkpoint_pause(const Worker& worker) {
    const auto& checkpoint = scenario_.training.checkpoint;
    if (!checkpoint || worker.index != 0 || updates_ / checkpoint->every_steps == checkpoints_) return Seconds{};
    checkpoints_ = updates_ / checkpoint->every_steps;
    return checkpoint->fixed_time + checkpoint_bytes(scenario_) / checkpoint->rate;
  }

  Bytes bytes(int variable) const { return variables_[static_cast<std::size_t>(variable)].bytes; }

  void record(const Server& server, const CorePool::Slot& slot, int variable, bool is_update) {
    if (cluster_.recorder.keeps_activity)
      cluster_.recorder.server_work.push_back({server.machine, slot.core, variable, is_update, {slot.start, slot.end}});
  }

  /// [machines] everything up to now.
  std::vector<MachineUse> use_so_far() const {
    std::vector<MachineUse> use(cluster_.machines.size());
    for (const Server& server : servers_) use[static_cast<std::size_t>(server.machine)].cpu_busy = server.cores.work();
    for (const auto& worker : workers_) {
      use[static_cast<std::size_t>(worker->machine)].steps = worker->steps;
      for (const Link& link : worker->links) {
        for (const Connection* connection : {link.down.get(), link.up.get()}) {
          use[static_cast<std::size_t>(connection->from())].sent += connection->sent();
          use[static_cast<std::size_t>(connection->to())].received += connection->received();
        }
      }
    }
    return use;
  }

  void open_window() {
    if (window_is_closed_) return;
    window_.start = clock_.now();
    use_at_start_ = use_so_far();
  }

  void close_window() {
    if (window_is_closed_) return;
    window_is_closed_ = true;
    window_.end = clock_.now();
    use_at_end_ = use_so_far();
  }

  [[noreturn]] void report_deadlock() const {
    std::string waiting;
    for (const auto& worker : workers_) {
      if (!worker->is_training) continue;
      if (!waiting.empty()) waiting += "; ";
      waiting += cluster_.machines[static_cast<std::size_t>(worker->machine)].name + " in its step " +
                 std::to_string(worker->steps + 1);
      const int variable = worker->compute->waits_for();
      waiting += variable >= 0 ? " waits for variable " + variables_[static_cast<std::size_t>(variable)].name
                               : " waits for its updates to be applied";
    }
    throw NoResultError{"deadlock after " + std::to_string(updates_) + " of " + std::to_string(chosen_steps_) +
                        " steps: " + waiting};
  }

  RunRecord collect() {
    if (updates_ != chosen_steps_) report_deadlock();
    RunRecord record;
    record.machines = cluster_.machines;
    record.total = use_so_far();
    record.in_window = record.total;
    record.window = {Seconds{}, end_};
    if (!use_at_start_.empty() && window_.end > window_.start) {
      record.window = window_;
      record.in_window = use_at_end_;
      for (std::size_t m = 0; m < record.in_window.size(); ++m) {
        MachineUse& use = record.in_window[m];
        use.cpu_busy -= use_at_start_[m].cpu_busy;
        use.sent -= use_at_start_[m].sent;
        use.received -= use_at_start_[m].received;
        use.steps -= use_at_start_[m].steps;
      }
    }
    record.end = end_;
    record.updates = updates_;
    const std::size_t machines = cluster_.machines.size();
    record.gpu_time_per_step.resize(machines);
    record.memory_time_per_step.resize(machines);
    record.unblocked_step.resize(machines);
    record.placed_bytes.resize(machines);
    record.placed_variables.resize(machines);
    for (const auto& worker : workers_) {
      const auto m = static_cast<std::size_t>(worker->machine);
      record.gpu_time_per_step[m] = worker->plan.gpu_time;
      record.memory_time_per_step[m] = worker->plan.memory_time;
      record.unblocked_step[m] = worker->plan.unblocked + scenario_.profile.host.step_overhead;
      for (const Link& link : worker->links) {
        record.sent += link.down->sent() + link.up->sent();
        record.received += link.down->received() + link.up->received();
      }
    }
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      const auto m = static_cast<std::size_t>(servers_[static_cast<std::size_t>(server_of_[v])].machine);
      ++record.placed_variables[m];
      if (variables_[v].is_trainable) record.placed_bytes[m] += variables_[v].bytes;
    }
    return record;
  }

  Cluster cluster_;
  const Scenario& scenario_;
  const std::vector<Variable>& variables_;
  Clock& clock_;
  std::int64_t chosen_steps_;
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<int> server_of_;  // [variables]
  int trainable_ = 0;
  std::int64_t started_steps_ = 0;
  std::int64_t updates_ = 0;
  std::int64_t checkpoints_ = 0;
  Seconds end_{};
  std::size_t warm_workers_ = 0;
  Span window_;
  bool window_is_closed_ = false;
  std::vector<MachineUse> use_at_start_, use_at_end_;
};

}  // namespace

RunRecord run_parameter_server_asynchronous(Cluster cluster) { return AsynchronousParameterServer{cluster}.run(); }

}  // namespace rehearse
