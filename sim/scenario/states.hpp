#pragma once
// What training keeps of each parameter besides activations, and in how many bytes.

#include <optional>

#include "workloads/graph_builder.hpp"

namespace rehearse {

/// Scalars of the variables that a GPU has, of which those of experts that are spread over GPUs are shared by fewer.
struct HeldParameters {
  std::int64_t trained = 0, frozen = 0;
  std::int64_t trained_of_experts = 0, frozen_of_experts = 0;
  std::int64_t cast = 0;  // of all of these: with copies in 8 bits

  void add(const Variable& variable, int parts = 1) {
    const bool is_of_experts = variable.parts_of_experts > 0;
    if (variable.is_trainable) (is_of_experts ? trained_of_experts : trained) += variable.scalars() / parts;
    if (variable.has_cast) cast += variable.scalars() / parts;
    if (variable.is_frozen) (is_of_experts ? frozen_of_experts : frozen) += variable.scalars();
  }
};

/// Precisions in which the states of a parameter are stored. Kernels compute with the weights in the workload's precision,
/// whatever these are.
struct States {
  Precision weights = Precision::kFp32;
  Precision gradients = Precision::kFp32;     // as they are held; how they are sent says GradientExchange
  std::optional<Precision> master_weights{};  // those that the optimizer updates, if they are not the weights
  Precision moments = Precision::kFp32;       // the optimizer's slots

  bool operator==(const States&) const = default;
};

/// The convention of mixed precision: training in 16 bits keeps weights and gradients in 16 bits, and master weights and
/// moments in fp32; in fp32 and tf32 all is fp32, without master weights. With Adam 2 + 2 + 4 + 8 or 4 + 4 + 8 bytes of a
/// parameter. Source: Micikevicius et al., Mixed Precision Training, ICLR 2018; Rajbhandari et al., ZeRO, SC 2020, section 3.1.
States default_states(Precision precision);

/// Bytes of one parameter: 2 or 4 of weights, of gradients, and of what only the optimizer reads: master weights and `slots`
/// moments.
int weight_bytes(const States& states);
int gradient_bytes(const States& states);
int optimizer_bytes(const States& states, int slots);

/// Bytes of a parameter that an update reads and writes: the gradient once, the weights that it updates and the moments
/// twice, and the 16-bit weights that it writes anew beside master weights:
///   4 + 2 x 4 + 2 x 4 slots = 28 with Adam in fp32, 2 + 2 x 4 + 2 x 4 slots + 2 = 28 in mixed precision, 30 of fp32 gradients
int update_bytes(const States& states, int slots);
int update_read_bytes(const States& states, int slots);
int update_written_bytes(const States& states, int slots);

/// Bytes of a parameter in a checkpoint: all states but the gradients.
int checkpoint_bytes(const States& states, int slots);

}  // namespace rehearse
