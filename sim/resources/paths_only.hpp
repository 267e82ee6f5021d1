#pragma once
// The paths of a network on which nothing moves: for what is known in closed form.

#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "sim/resources/network.hpp"

namespace rehearse {

/// Paths, and nothing that moves on them.
class PathsOnly : public Network {
 public:
  using Network::Network;
  void cancel(FlowId) override {}
  Seconds now() const override { return {}; }
  void watch(const std::vector<int>&, OnRate) override { refuse(); }

 private:
  FlowId start(PathIndex, Bytes, std::optional<BytesPerSecond>, double, std::function<void()>) override { refuse(); }
  [[noreturn]] static void refuse() { throw std::logic_error{"a closed form has no flows"}; }
};

}  // namespace rehearse
