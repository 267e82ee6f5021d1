// Decentralized training: in each step a worker computes its gradients and, at the same time, fetches the model of a
// random other worker; when it has both it averages the two models, applies its gradients, and goes on. Nobody waits.
// Workers may join, with their first fetch, and leave; a model that was asked for before is still sent.
//
//   host     step_overhead, the samples go to the GPU
//   fetch    request (L), then the whole model from GPU to GPU (+ L), one model at a time between each two workers
//   compute  forward and backward
//   end      the later of the two, and the optimizer
//
// Source: Lian et al., Asynchronous Decentralized Parallel Stochastic Gradient Descent, ICML 2018.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "sim/base/errors.hpp"
#include "sim/engine/compute_stream.hpp"
#include "sim/engine/connection.hpp"
#include "sim/engine/copy_engine.hpp"
#include "sim/engine/run_monitor.hpp"
#include "sim/engine/strategy.hpp"

namespace rehearse {

namespace {

class PairwiseAveraging {
 public:
  explicit PairwiseAveraging(Cluster& cluster)
      : cluster_{cluster},
        scenario_{cluster.scenario},
        clock_{cluster.clock},
        monitor_{cluster},
        steps_{cluster.scenario.training.steps},
        model_{cluster.scenario.workload.parameter_bytes()} {
    for (Worker& worker : monitor_.workers()) {
      peers_.push_back(std::make_unique<Peer>(worker, scenario_.seed));
      Peer& peer = *peers_.back();
      peer.compute.emplace(*worker.plan, scenario_.workload.variables.size(),
                           scenario_.training.strategy.exchange.accumulation_steps, cluster.recorder, worker.gpu,
                           [](int, Seconds) {});
      peer.to_gpu.emplace(clock_, cluster.network, monitor_.traffic(), cluster.recorder,
                          std::vector{cluster.network.path(worker.host, worker.gpu)},
                          [this, &peer](int, Seconds when) { begin_compute(peer, when); });
    }
  }

  RunRecord run() {
    for (const auto& peer : peers_) {
      if (monitor_.is_there_from_the_start(peer->worker)) present_.push_back(peer.get());
      clock_.schedule(monitor_.joins_at(peer->worker), [this, &peer = *peer] {
        if (!monitor_.is_there_from_the_start(peer.worker)) {
          if (started_steps_ == steps_) return;
          present_.push_back(&peer);
        }
        monitor_.record_start(peer.worker);
        begin_step(peer);
      });
    }
    cluster_.run();
    if (updates_ != steps_ && present_.empty())
      throw NoResultError{"every worker has left after " + std::to_string(updates_) + " of " + std::to_string(steps_) +
                          " steps"};
    if (updates_ != steps_)
      throw NoResultError{"deadlock after " + std::to_string(updates_) + " of " + std::to_string(steps_) +
                          " steps: workers wait for models of others"};
    RunRecord record = monitor_.collect(end_, updates_);
    record.unit_names = {"model"};
    return record;
  }

 private:
  struct Peer {
    Peer(Worker& worker_, std::uint64_t seed)
        : worker{worker_}, choice{seed, "partners of worker " + std::to_string(worker_.index)} {}
    Worker& worker;
    Rng choice;
    std::optional<CopyEngine> to_gpu;
    std::optional<ComputeStream> compute;
    int awaited = 0;  // of compute and model
    std::int64_t updates_at_start = 0;
  };

  void begin_step(Peer& peer) {
    if (started_steps_ == steps_) {
      monitor_.close_window();
      return;
    }
    if (monitor_.has_to_leave(peer.worker)) {
      std::erase(present_, &peer);
      monitor_.record_leave(peer.worker);
      return;
    }
    ++started_steps_;
    peer.updates_at_start = updates_;
    peer.worker.step = {.span = {clock_.now(), {}}};
    const Seconds requested = clock_.now() + peer.worker.plan->step_overhead;
    peer.awaited = 1;
    if (present_.size() > 1) {
      ++peer.awaited;
      const auto mine = std::find(present_.begin(), present_.end(), &peer);
      auto other = present_.begin() + static_cast<std::ptrdiff_t>(peer.choice.below(present_.size() - 1));
      if (other >= mine) ++other;
      Connection& connection = connection_from(**other, peer);
      clock_.schedule(requested + connection.latency(), [this, &connection, &peer] {
        connection.send({0, peer.worker.steps, model_, 0});
      });
    }
    peer.to_gpu->copy(requested, 0, peer.worker.plan->input, 0);
  }

  Connection& connection_from(const Peer& from, Peer& to) {
    auto& connection = connections_[{from.worker.index, to.worker.index}];
    if (connection == nullptr)
      connection = std::make_unique<Connection>(clock_, cluster_.network, monitor_.traffic(), cluster_.recorder,
                                                cluster_.network.path(from.worker.gpu, to.worker.gpu),
                                                [this, &to](const Connection::Message&) {
                                                  to.worker.step.last_pull = clock_.now();
                                                  end_part(to);
                                                });
    return *connection;
  }

  void begin_compute(Peer& peer, Seconds when) {
    peer.compute->begin_step_with_all_variables(when, monitor_.slowdown(peer.worker), nullptr);
    clock_.schedule(peer.compute->end(), [this, &peer] { end_part(peer); });
  }

  void end_part(Peer& peer) {
    if (--peer.awaited > 0) return;
    clock_.schedule_in(peer.worker.plan->update, [this, &peer] { end_step(peer); });
  }

  void end_step(Peer& peer) {
    ++updates_;
    end_ = clock_.now();
    peer.worker.step.compute_end = peer.compute->end();
    peer.worker.step.staleness = updates_ - 1 - peer.updates_at_start;
    monitor_.end_step(peer.worker, updates_);
    if (cluster_.on_update) cluster_.on_update(updates_);
    const Seconds pause = monitor_.checkpoint_pause(peer.worker, updates_);
    if (pause == Seconds{})
      begin_step(peer);
    else
      clock_.schedule_in(pause, [this, &peer] { begin_step(peer); });
  }

  Cluster& cluster_;
  const Scenario& scenario_;
  Clock& clock_;
  RunMonitor monitor_;
  std::int64_t steps_;
  Bytes model_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> present_;
  std::map<std::pair<int, int>, std::unique_ptr<Connection>> connections_;  // from, to
  std::int64_t started_steps_ = 0;
  std::int64_t updates_ = 0;
  Seconds end_{};
};

}  // namespace

RunRecord run_pairwise_averaging(Cluster cluster) { return PairwiseAveraging{cluster}.run(); }

}  // namespace rehearse
