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
#include <iterator>
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

class PairwiseAveraging final : public Session {
 public:
  PairwiseAveraging(Cluster& cluster, RunMonitor& monitor, TrainingProgress done)
      : cluster_{cluster},
        scenario_{cluster.scenario},
        clock_{cluster.clock, cluster.clock.new_owner()},
        monitor_{monitor},
        all_samples_{cluster.scenario.training.samples},
        model_{cluster.scenario.workload.parameter_bytes()},
        started_samples_{done.samples},
        done_{done} {
    for (Worker& worker : monitor_.workers()) {
      peers_.push_back(std::make_unique<Peer>(worker, scenario_.seed));
      equip(*peers_.back());
    }
  }
  ~PairwiseAveraging() override {
    clock_.retire();
    for (const auto& peer : peers_) peer->clock->retire();
  }

  void begin() override {
    for (const auto& peer : peers_)
      if (monitor_.is_there(peer->worker.gpu.machine)) present_.push_back(peer.get());
    for (Peer* peer : present_)
      peer->clock->schedule(std::max(clock_.now(), monitor_.starts_at(peer->worker)), [this, peer] {
        monitor_.record_start(peer->worker);
        begin_step(*peer);
      });
  }

  void join(MachineIndex machine) override {
    for (const auto& peer : peers_)
      if (peer->worker.gpu.machine == machine && !is_present(*peer)) join(*peer);
  }

  /// Whoever waits for its model goes on without. The last worker takes the model with it.
  bool lose(MachineIndex machine) override {
    const auto is_its = [machine](const Peer* peer) { return peer->worker.gpu.machine == machine; };
    std::vector<Peer*> lost;
    std::copy_if(present_.begin(), present_.end(), std::back_inserter(lost), is_its);
    if (lost.empty()) return true;
    std::erase_if(present_, is_its);
    if (present_.empty()) return false;
    for (Peer* peer : lost) {
      if (std::exchange(peer->is_training, false)) started_samples_ -= peer->worker.step.samples;
      peer->clock->retire();
      equip(*peer);
    }
    for (Peer* peer : present_)
      if (peer->fetches_from != nullptr && is_its(peer->fetches_from)) {
        peer->fetches_from = nullptr;
        peer->fetch.reset();
        peer->clock->schedule_in({}, [this, peer] { end_part(*peer); });
      }
    for (Peer* peer : std::exchange(idle_, {})) {
      if (is_present(*peer))
        begin_step(*peer);
      else if (monitor_.is_there(peer->worker.gpu.machine))
        join(*peer);
    }
    return true;
  }

  TrainingProgress progress() const override { return done_; }
  Seconds last_update() const override { return end_; }
  std::string deadlock() const override { return "workers wait for models of others"; }
  void describe(RunRecord& record) const override { record.unit_names = {"model"}; }

 private:
  struct Peer {
    Peer(Worker& worker_, std::uint64_t seed)
        : worker{worker_}, choice{seed, "partners of worker " + std::to_string(worker_.index)} {}
    Worker& worker;
    Rng choice;
    std::optional<OwnedClock> clock;
    std::optional<CopyEngine> to_gpu;
    std::optional<ComputeStream> compute;
    int awaited = 0;                     // of compute and model
    std::unique_ptr<Connection> fetch;   // the latest
    const Peer* fetches_from = nullptr;  // whose model has not arrived
    bool is_training = false;
    std::int64_t updates_at_start = 0;
  };
  bool is_present(const Peer& peer) const {
    return std::find(present_.begin(), present_.end(), &peer) != present_.end();
  }

  /// Nothing of what it had before is under way any more.
  void equip(Peer& peer) {
    peer.clock.emplace(cluster_.clock, cluster_.clock.new_owner());
    peer.fetch.reset();
    peer.fetches_from = nullptr;
    peer.compute.emplace(*peer.worker.plan, scenario_.workload.variables.size(),
                         scenario_.training.strategy.exchange.accumulation_steps, cluster_.recorder, peer.worker.gpu,
                         [](int, Seconds) {});
    peer.to_gpu.emplace(*peer.clock, cluster_.network, monitor_.traffic(), cluster_.recorder,
                        std::vector{cluster_.network.path(peer.worker.host, peer.worker.gpu)},
                        monitor_.workers().size() == 1,  // else models come meanwhile
                        [this, &peer](const Connection::Message&, Seconds when) { begin_compute(peer, when); });
  }

  void join(Peer& peer) {
    if (started_samples_ >= all_samples_) {
      idle_.push_back(&peer);
      return;
    }
    present_.push_back(&peer);
    monitor_.record_start(peer.worker);
    begin_step(peer);
  }

  void begin_step(Peer& peer) {
    if (started_samples_ >= all_samples_) {
      monitor_.close_window();
      idle_.push_back(&peer);
      return;
    }
    if (monitor_.has_to_leave(peer.worker)) {
      std::erase(present_, &peer);
      monitor_.record_leave(peer.worker);
      if (present_.empty()) cluster_.clock.schedule_in({}, cluster_.on_deserted);
      return;
    }
    peer.is_training = true;
    peer.updates_at_start = done_.updates;
    peer.worker.step = {.span = {clock_.now(), {}}};
    peer.worker.step.samples = peer.worker.samples;
    started_samples_ += peer.worker.step.samples;
    const Seconds requested = clock_.now() + peer.worker.plan->step_overhead;
    peer.awaited = 1;
    if (present_.size() > 1) {
      ++peer.awaited;
      const auto mine = std::find(present_.begin(), present_.end(), &peer);
      auto other = present_.begin() + static_cast<std::ptrdiff_t>(peer.choice.below(present_.size() - 1));
      if (other >= mine) ++other;
      fetch_model(peer, **other, requested);
    }
    peer.to_gpu->copy(requested, 0, peer.worker.plan->input, 0);
  }

  void fetch_model(Peer& peer, const Peer& from, Seconds requested) {
    peer.fetches_from = &from;
    peer.fetch = std::make_unique<Connection>(*peer.clock, cluster_.network, monitor_.traffic(), cluster_.recorder,
                                              cluster_.network.path(from.worker.gpu, peer.worker.gpu),
                                              [this, &peer](const Connection::Message&) {
                                                peer.fetches_from = nullptr;
                                                peer.worker.step.last_pull = clock_.now();
                                                end_part(peer);
                                              });
    peer.clock->schedule(requested + peer.fetch->latency(), [this, &peer, step = peer.worker.steps] {
      if (peer.worker.steps == step && peer.fetch) peer.fetch->send({0, step, model_, 0});
    });
  }

  void begin_compute(Peer& peer, Seconds when) {
    peer.worker.step.times.input = when - peer.worker.step.span.start - peer.worker.plan->step_overhead;
    peer.compute->begin_step_with_all_variables(when, monitor_.slowdown(peer.worker));
    peer.clock->schedule(peer.compute->end(), [this, &peer] { end_part(peer); });
  }

  void end_part(Peer& peer) {
    if (--peer.awaited > 0) return;
    peer.clock->schedule_in(peer.worker.plan->update, [this, &peer] { end_step(peer); });
  }

  /// A step that ends when all samples are done is used by nobody: the last steps began when more were left.
  void end_step(Peer& peer) {
    const bool is_late = !monitor_.count_update(done_, peer.worker.step.samples);
    if (!is_late) end_ = clock_.now();
    peer.is_training = false;
    peer.worker.step.compute_end = peer.compute->end();
    StepTimes& times = peer.worker.step.times;
    times.kernels = peer.compute->kernel_time();
    const Seconds waited = std::max(Seconds{}, clock_.now() - peer.compute->end() - peer.worker.plan->update);
    times.latency = peer.fetch ? std::min(waited, peer.fetch->latency() * 2) : Seconds{};
    times.network = waited - times.latency;
    peer.worker.step.staleness = std::max<std::int64_t>(0, done_.updates - 1 - peer.updates_at_start);
    monitor_.end_step(peer.worker, done_.updates);
    if (!is_late && cluster_.on_update) cluster_.on_update(done_);
    const Seconds pause = monitor_.checkpoint_pause(peer.worker, done_);
    if (pause == Seconds{})
      begin_step(peer);
    else
      peer.clock->schedule_in(pause, [this, &peer] { begin_step(peer); });
  }

  Cluster& cluster_;
  const Scenario& scenario_;
  OwnedClock clock_;
  RunMonitor& monitor_;
  std::int64_t all_samples_;
  Bytes model_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> present_;
  std::vector<Peer*> idle_;  // found no step left to begin
  std::int64_t started_samples_;
  TrainingProgress done_;
  Seconds end_{};
};

}  // namespace

std::unique_ptr<Session> train_by_pairwise_averaging(Cluster& cluster, RunMonitor& monitor, TrainingProgress done) {
  return std::make_unique<PairwiseAveraging>(cluster, monitor, done);
}

}  // namespace rehearse
