#pragma once
// Whole steps of training, measured: forward and backward pass and SGD's update in fp32, one operator after another.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "calibration/microbench/timing.hpp"

namespace rehearse::microbench {

/// A network of networks/NAME.json, and the samples of a step.
struct Network {
  const char* name;
  int batch;
};
inline constexpr std::array kNetworks{Network{"mlp", 96},          Network{"lenet", 96},       Network{"resnet20", 24},
                                      Network{"mobilenet_v2", 20}, Network{"transformer", 20}, Network{"llama", 12}};

/// Trained scalars of the network as LibTorch has it: those of its model file.
std::int64_t trained_scalars(std::string_view name);

/// Memory that a forward pass leaves for the backward pass, in bytes: what LibTorch has allocated in it and not freed, loss and
/// scores included. Throws NoResultError as below.
std::int64_t kept_bytes(const Network& network);

/// The time of a step on one thread; none if `is_over` ended it. Throws NoResultError where LibTorch was not built in.
std::optional<Sample> measure_step(const Network& network, const Effort& effort,
                                   const std::function<bool()>& is_over = {});

/// A step between two pauses, in seconds since the first one began, and how long the thread computed in it.
struct BusySpan {
  double start = 0, end = 0, processor_time = 0;
};

/// `count` steps on one thread, and a pause of so many seconds after each; none if `is_over` ended it. Throws
/// NoResultError as above.
std::vector<BusySpan> paused_steps(const Network& network, int count, double pause,
                                   const std::function<bool()>& is_over = {});

}  // namespace rehearse::microbench
