#pragma once
// Copies between the memory of a host and one of its GPUs, first in, first out in each direction.

#include <functional>
#include <memory>

#include "sim/engine/connection.hpp"

namespace rehearse {

/// With a PCIe link of its own a GPU's copies take size / rate one after another, and their ends are known at once;
/// where GPUs share the way to the host they are flows over it.
class CopyEngine {
 public:
  using OnCopied = std::function<void(int unit, Seconds when)>;

  /// `gpu_path` leads from host to GPU or back.
  CopyEngine(Clock& clock, Network& network, Traffic& traffic, Recorder& recorder, PathIndex gpu_path,
             OnCopied on_copied)
      : clock_{clock}, on_copied_{std::move(on_copied)} {
    const Path& path = network.path(gpu_path);
    if (path.links.size() == 1) {
      rate_ = network.topology().links()[static_cast<std::size_t>(path.links.front())].rate;
      latency_ = path.latency;
    } else {
      shared_ = std::make_unique<Connection>(
          clock, network, traffic, recorder, gpu_path,
          [this](const Connection::Message& message) { on_copied_(message.unit, clock_.now()); });
    }
  }

  /// Copies what is `ready` at a date that is not in the past; `on_copied` may run at once, with a later date.
  void copy(Seconds ready, int unit, Bytes size, int priority) {
    if (shared_ == nullptr) {
      free_at_ = std::max(free_at_, ready) + size / rate_;
      on_copied_(unit, free_at_ + latency_);
      return;
    }
    clock_.schedule(ready, [this, unit, size, priority] { shared_->send({unit, 0, size, priority}); });
  }

 private:
  Clock& clock_;
  OnCopied on_copied_;
  BytesPerSecond rate_{};
  Seconds latency_{};
  Seconds free_at_{};
  std::unique_ptr<Connection> shared_;  // null: the link is the GPU's own
};

}  // namespace rehearse
