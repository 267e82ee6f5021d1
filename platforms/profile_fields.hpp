#pragma once
// The keys of a profile file's objects: JSON Schema of them is in schemas.cpp.

#include <array>
#include <span>

#include "platforms/board_power.hpp"
#include "platforms/distribution.hpp"
#include "platforms/fields.hpp"
#include "platforms/profile.hpp"
#include "platforms/startup.hpp"

namespace rehearse {

inline constexpr Bounds kUpToSecond{0, 1, "at most 1s"};
inline constexpr Bounds kUpToTenSeconds{0, 10, "at most 10s"};
inline constexpr Bounds kByteTime{0, 1e-3, "at most 1ms"};
inline constexpr Bounds kParameterBytes{0, 100, "0 to 100 bytes of a parameter"};
inline constexpr Bounds kDrawnTime{kAboveZero, 1e9, "a time above 0s, at most 1e9s"};
inline constexpr Bounds kEnergy{kAboveZero, 1000, "above 0 to 1000 pJ"};
inline constexpr Bounds kEnergyOfByte{kAboveZero, 10000, "above 0 to 10000 pJ"};
inline constexpr Bounds kPowerShare{kAboveZero, 1, "a share above 0"};
inline constexpr Bounds kHops{0, 1000, "0 to 1000 hops"};
inline constexpr Bounds kCycles{0, 1e6, "0 to 1000000 cycles"};
/// What of a protocol's bytes is data: a payload by it stays a number of bytes.
inline constexpr Bounds kProtocolShare{0.001, 1, "a share from 0.001 to 1"};

constexpr auto fields_of(const HostParameters*) {
  using T = HostParameters;
  return std::to_array<Field<T>>(
      {{"dispatch", &T::dispatch, kRequired}, {"step_overhead", &T::step_overhead, kRequired}});
}

constexpr auto fields_of(const GpuParameters*) {
  using T = GpuParameters;
  return std::to_array<Field<T>>({
      {"kernel_overhead", &T::kernel_overhead, kRequired},
      {"memory_efficiency", &T::memory_efficiency, kRequired, kShare},
      {"reduction_half", &T::reduction_half, kRequired, {0, 1e9, "0 to 1e9"}},
      {"winograd_gain", &T::winograd_gain, kRequired, {1, 16, "1 to 16"}},
      {"default_peak_efficiency", &T::default_peak_efficiency, kOptional, kShare},
  });
}

constexpr auto fields_of(const FrameworkMemory*) {
  using T = FrameworkMemory;
  constexpr Bounds kKept{0.1, 10, "a factor of 0.1 to 10"};
  return std::to_array<Field<T>>({
      {"kept_activations", &T::kept_activations, kOptional, kKept},
      {"kept_split_activations", &T::kept_split_activations, kOptional, kKept},
      {"kept_gathered", &T::kept_gathered, kOptional, {0, 1, "a share from 0 to 1"}},
      {"norm_copies", &T::norm_copies, kOptional, {0, 10, "0 to 10 tensors"}},
      {"gradient_temporaries", &T::gradient_temporaries, kOptional, kParameterBytes},
      {"gradient_buffers", &T::gradient_buffers, kOptional, kParameterBytes},
      {"loss_in_place", &T::loss_in_place},
      {"held", &T::held, kOptional, {0, std::int64_t{1} << 40, "at most 1TiB"}},
  });
}

constexpr auto fields_of(const FrameworkErrors*) {
  using T = FrameworkErrors;
  return std::to_array<Field<T>>({
      {"rows", &T::rows, kRequired, {20, kNoLimit, "at least 20: fewer tell no percentile"}},
      {"accelerators", &T::accelerators, kRequired},
      {"nic_min", &T::nic_min},
      {"nic_max", &T::nic_max},
      {"low", &T::low, kRequired},
      {"high", &T::high, kRequired},
  });
}

constexpr auto fields_of(const Framework*) {
  using T = Framework;
  return std::to_array<Field<T>>({
      {"dispatch", &T::dispatch, kOptional, kUpToSecond},
      {"step_overhead", &T::step_overhead, kOptional, kUpToTenSeconds},
      {"waits_for_kernels", &T::waits_for_kernels},
      {"kernel_overhead", &T::kernel_overhead, kOptional, kUpToSecond},
      {"composition", &T::composition, kOptional, {1, 100, "1 to 100 kernels"}},
      {"update_dispatch", &T::update_dispatch, kOptional, kUpToSecond},
      {"update_loop", &T::update_loop, kOptional, kUpToSecond},
      {"gather_copy", &T::gather_copy, kOptional, kUpToSecond},
      {"update_traffic", &T::update_traffic, kOptional, {0, 1000, "0 to 1000 bytes of a parameter"}},
      {"tf32", &T::uses_tf32},
      {"needs_alignment", &T::needs_alignment},
      {"copies", &T::copies, kOptional, {0, 100, "0 to 100 kernels"}},
      {"mixed_scalars", &T::mixed_scalars, kOptional, {1, 100, "a factor of 1 to 100"}},
      {"fusion", &T::fusion, kOptional, {0, 0.99, "a share of 0 to 0.99"}},
      {"collective_dispatch", &T::collective_dispatch, kOptional, kUpToSecond},
      {"accumulation", &T::accumulation, kOptional, kParameterBytes},
      {"accumulates_in_product", &T::accumulates_in_product},
      {"dispatch_beside_pipeline", &T::dispatch_beside_pipeline, kOptional, kUpToSecond},
      {"load_wait", &T::load_wait, kOptional, kUpToSecond},
      {"attention_rate", &T::attention_rate, kOptional, {0.01, 10, "a rate of 0.01 to 10 times FlashAttention-2's"}},
      {"transposes_images", &T::transposes_images},
      {"convolution_workspace", &T::convolution_workspace},
      {"transforms_weight_gradients", &T::transforms_weight_gradients},
      {"variables_on_host", &T::has_variables_on_host},
  });
}

constexpr auto fields_of(const LocalExchange*) {
  using T = LocalExchange;
  return std::to_array<Field<T>>({{"time_per_variable", &T::time_per_variable, kRequired, kUpToTenSeconds},
                                  {"time_per_byte", &T::time_per_byte, kRequired, kByteTime}});
}

constexpr auto fields_of(const ServerParameters*) {
  using T = ServerParameters;
  return std::to_array<Field<T>>({
      {"software", &T::software},
      {"threads", &T::threads, kOptional, {1, 1024, "1 to 1024 threads"}},
      {"connection_rate", &T::connection_rate, kOptional, {1e3, kNoLimit, "at least 1kBps"}},
      {"time_per_variable", &T::time_per_variable, kRequired, kUpToTenSeconds},
      {"time_per_byte", &T::time_per_byte, kRequired, kByteTime},
      {"time_per_split_update", &T::time_per_split_update, kRequired, kUpToTenSeconds},
      {"time_per_update", &T::time_per_update, kOptional, kUpToTenSeconds},
      {"split_update_threshold", &T::split_update_threshold, kRequired},
  });
}

constexpr auto fields_of(const NetworkParameters*) {
  using T = NetworkParameters;
  return std::to_array<Field<T>>({
      {"nic_efficiency", &T::nic_efficiency, kRequired, kShare},
      {"connection_window", &T::connection_window, kOptional, {1024, kNoLimit, "at least 1KiB"}},
      {"tcp_rate", &T::tcp_rate, kOptional, {1e6, kNoLimit, "at least 1MBps"}},
      {"flow_efficiency", &T::flow_efficiency, kOptional, kShare},
      {"duplex", &T::duplex, kOptional, {kAboveZero, 2, "a number above 0, at most 2"}},
  });
}

constexpr auto fields_of(const TunerCosts*) {
  using T = TunerCosts;
  return std::to_array<Field<T>>({
      {"launch", &T::launch, kOptional, kUpToSecond},
      {"nvlink_step", &T::nvlink_step, kOptional, kUpToSecond},
      {"pcie_step", &T::pcie_step, kOptional, kUpToSecond},
      {"network_step", &T::network_step, kOptional, kUpToSecond},
      {"efficiency", &T::efficiency, kOptional, kProtocolShare},
  });
}

constexpr auto fields_of(const CollectiveProtocol*) {
  using T = CollectiveProtocol;
  return std::to_array<Field<T>>({
      {"algorithm", &T::algorithm},
      {"operation", &T::operation},
      {"needs_order", &T::needs_order},
      {"in_gpu_order", &T::is_in_gpu_order},
      {"piece", &T::piece, kOptional, {0, std::int64_t{1} << 40, "at most 1TiB"}},
      {"fetched_above", &T::fetched_above},
      {"launch", &T::launch, kOptional, kUpToSecond},
      {"launch_hops", &T::launch_hops, kOptional, kHops},
      {"step_hops", &T::step_hops, kOptional, kHops},
      {"kept_hops", &T::kept_hops, kOptional, kHops},
      {"nvlink_step", &T::nvlink_step, kOptional, kUpToSecond},
      {"pcie_step", &T::pcie_step, kOptional, kUpToSecond},
      {"network_step", &T::network_step, kOptional, kUpToSecond},
      {"kept_step", &T::kept_step, kOptional, kUpToSecond},
      {"overlap", &T::overlap, kOptional, {0, 1, "a share from 0 to 1"}},
      {"efficiency", &T::efficiency, kOptional, kProtocolShare},
      {"copy", &T::copy, kOptional, kRate},
      {"receivers_announce", &T::receivers_announce},
      {"eager_limit", &T::eager_limit},
      {"launches_ahead", &T::launches_ahead},
  });
}

constexpr auto fields_of(const CollectiveParameters*) {
  using T = CollectiveParameters;
  return std::to_array<Field<T>>({
      {"launch", &T::launch, kOptional, kUpToSecond},
      {"hop", &T::hop, kOptional, kUpToSecond},
      {"launch_cycles", &T::launch_cycles, kOptional, kCycles},
      {"hop_cycles", &T::hop_cycles, kOptional, kCycles},
      {"across_dies", &T::across_dies, kOptional, {0.1, 10, "a factor from 0.1 to 10"}},
      {"pcie_efficiency", &T::pcie_efficiency, kOptional, kShare},
      {"socket_efficiency", &T::socket_efficiency, kOptional, kShare},
      {"nvlink_efficiency", &T::nvlink_efficiency, kOptional, kShare},
      {"nvlink_relay_efficiency", &T::nvlink_relay_efficiency, kOptional, {0, 1, "a share from 0 to 1"}},
  });
}

constexpr auto fields_of(const StepTime*) {
  using T = StepTime;
  return std::to_array<Field<T>>({
      {"model", &T::model, kRequired},
      {"accelerator", &T::accelerator, kRequired},
      {"precision", &T::precision, kRequired},
      {"framework", &T::framework},
      {"gpus", &T::gpus, kOptional, {1, 64, "1 to 64 GPUs"}},
      {"batch", &T::batch, kRequired, {1, 65536, "1 to 65536 samples"}},
      {"time", &T::time, kRequired, {kAboveZero, 1e5, "above 0, at most 100000s"}},
      {"is_estimated", &T::is_estimated},
  });
}

constexpr auto fields_of(const CheckpointStage*) {
  using T = CheckpointStage;
  return std::to_array<Field<T>>({
      {"fixed_time", &T::fixed_time, kRequired, {0, 1e6, "at most 1e6s"}},
      {"time_per_tensor", &T::time_per_tensor, kOptional, kUpToTenSeconds},
      {"rate", &T::rate, kRequired, kRate},
  });
}

constexpr auto fields_of(const CheckpointParameters*) {
  return std::to_array<Field<CheckpointParameters>>({{"source", &CheckpointParameters::source, kRequired}});
}
constexpr auto fields_of(const StartupParameters*) {
  return std::to_array<Field<StartupParameters>>({{"source", &StartupParameters::source, kRequired}});
}

constexpr auto fields_of(const FrameworkStart*) {
  using T = FrameworkStart;
  return std::to_array<Field<T>>({{"fixed_time", &T::fixed_time, kRequired},
                                  {"time_per_tensor", &T::time_per_tensor, kRequired},
                                  {"cold_time", &T::cold_time, kRequired}});
}

constexpr auto fields_of(const StartupCondition*) {
  using T = StartupCondition;
  return std::to_array<Field<T>>({{"market", &T::market}, {"region", &T::region}, {"accelerator", &T::accelerator}});
}

constexpr auto fields_of(const Exponential*) {
  return std::to_array<Field<Exponential>>({{"mean", &Exponential::mean, kRequired, kDrawnTime}});
}
constexpr auto fields_of(const Lognormal*) {
  return std::to_array<Field<Lognormal>>({{"median", &Lognormal::median, kRequired, kDrawnTime},
                                          {"sigma", &Lognormal::sigma, kRequired, {1e-6, 10, "1e-6 to 10"}}});
}
constexpr auto fields_of(const Weibull*) {
  return std::to_array<Field<Weibull>>({{"scale", &Weibull::scale, kRequired, kDrawnTime},
                                        {"shape", &Weibull::shape, kRequired, {0.05, 100, "0.05 to 100"}}});
}
constexpr auto fields_of(const Distribution*) {
  return std::to_array<Field<Distribution>>({{"minimum", &Distribution::minimum, kOptional, {0, 1e9, "at most 1e9s"}}});
}

constexpr auto fields_of(const BoardPowerValues*) {
  using T = BoardPowerValues;
  return std::to_array<Field<T>>({
      {"rest_stacked", &T::rest_stacked, kOptional, kPowerShare},
      {"rest_soldered", &T::rest_soldered, kOptional, {kAboveZero, 1, "above 0 to 1 W for each GB/s"}},
      {"active", &T::active, kOptional, kEnergy},
      {"polling", &T::polling, kOptional, kPowerShare},
      {"vector_flop", &T::vector_flop, kOptional, kEnergy},
      {"matrix_flop", &T::matrix_flop, kOptional, kEnergy},
      {"byte_stacked", &T::byte_stacked, kOptional, kEnergyOfByte},
      {"byte_soldered", &T::byte_soldered, kOptional, kEnergyOfByte},
      {"voltage_floor", &T::voltage_floor, kOptional, kPowerShare},
      {"voltage_slope", &T::voltage_slope, kOptional, {kAboveZero, 10, "above 0 to 10"}},
  });
}

constexpr auto fields_of(const SeenExchange*) {
  using T = SeenExchange;
  return std::to_array<Field<T>>({{"strategy", &T::strategy, kRequired},
                                  {"links", &T::links},
                                  {"nic", &T::nic},
                                  {"workers_max", &T::workers_max, kRequired}});
}

/// What the fit of a profile has seen.
constexpr auto fields_of(const Profile*) {
  using T = Profile;
  return std::to_array<Field<T>>({
      {"accelerators", &T::fitted_accelerators, kRequired},
      {"models", &T::fitted_models, kRequired},
      {"batch_min", &T::fitted_batch_min, kRequired},
      {"batch_max", &T::fitted_batch_max, kRequired},
      {"workers_max", &T::fitted_workers_max, kRequired},
      {"servers_max", &T::fitted_servers_max, kRequired},
      {"frameworks", &T::fitted_frameworks},
  });
}

}  // namespace rehearse
