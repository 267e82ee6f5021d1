#pragma once
// Copies between the memory of a host and the GPUs of one worker, first in, first out in each direction.

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "sim/program/connection.hpp"

namespace rehearse {

/// A copy is made to, or from, each of the GPUs, and has ended when it has for all. With a PCIe link of its own a GPU's
/// copies take size / rate one after another, and their ends are known at once: all GPUs go the same pace. Where GPUs
/// share the way to the host, or other traffic of theirs the link, copies are flows over it.
class CopyEngine {
 public:
  using OnCopied = std::function<void(const Connection::Message& copied, Seconds when)>;

  /// `gpu_paths` lead from host to GPU or back, one for each GPU. `is_alone`: no flows to or from these GPUs are under
  /// way while there are copies.
  CopyEngine(OwnedClock clock, Cluster& cluster, const std::vector<PathIndex>& gpu_paths, bool is_alone,
             OnCopied on_copied)
      : clock_{clock}, recorder_{cluster.recorder}, on_copied_{std::move(on_copied)} {
    const Network& network = cluster.network;
    const Path& path = network.path(gpu_paths.front());
    if (path.links.size() == 1 && is_alone) {
      rate_ = network.topology().links()[static_cast<std::size_t>(path.links.front())].rate;
      latency_ = path.latency;
      for (const PathIndex gpu_path : gpu_paths)
        if (const auto link = recorder_.find_link(network.path(gpu_path).links.front())) recorded_.push_back(*link);
      return;
    }
    for (const PathIndex gpu_path : gpu_paths)
      shared_.push_back(std::make_unique<Connection>(clock, cluster, gpu_path,
                                                     [this](const Connection::Message& message) { copied(message); }));
  }

  /// Copies what is `ready` at a date that is not in the past; `on_copied` may run at once, with a later date.
  void copy(Seconds ready, int unit, Bytes size, int priority, int tag = 0) {
    if (shared_.empty()) {
      const Seconds start = std::max(free_at_, ready);
      free_at_ = start + size / rate_;
      for (const std::size_t link : recorded_)
        recorder_.add_rate(link, {.start = start.value(), .length = (size / rate_).value(), .rate = rate_.value()});
      on_copied_({unit, 0, size, priority, tag}, free_at_ + latency_);
      return;
    }
    clock_.schedule(ready, [this, copy = Connection::Message{unit, 0, size, priority, tag}] {
      for (const auto& gpu : shared_) gpu->send(copy);
    });
  }

 private:
  void copied(const Connection::Message& copy) {
    if (shared_.size() == 1) return on_copied_(copy, clock_.now());
    auto count = std::find_if(under_way_.begin(), under_way_.end(),
                              [&](const Count& c) { return c.unit == copy.unit && c.tag == copy.tag; });
    if (count == under_way_.end()) count = under_way_.insert(under_way_.end(), {copy.unit, copy.tag, 0});
    if (++count->gpus < shared_.size()) return;
    under_way_.erase(count);
    on_copied_(copy, clock_.now());
  }

  struct Count {
    int unit;
    int tag;
    std::size_t gpus;  // that have it
  };

  OwnedClock clock_;
  Recorder& recorder_;
  OnCopied on_copied_;
  BytesPerSecond rate_{};
  Seconds latency_{};
  Seconds free_at_{};
  std::vector<std::size_t> recorded_;                // links, if they are the GPUs' own and their rates are recorded
  std::vector<std::unique_ptr<Connection>> shared_;  // [GPUs]; empty: the links are the GPUs' own
  std::vector<Count> under_way_;                     // units that some of several GPUs have
};

}  // namespace rehearse
