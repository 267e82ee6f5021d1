#include "sim/scenario/states.hpp"

namespace rehearse {

namespace {

int master_bytes(const States& states) { return states.master_weights ? bytes_per_scalar(*states.master_weights) : 0; }

}  // namespace

States default_states(Precision precision) {
  if (!is_half(precision)) return {};
  return {.weights = precision, .gradients = precision, .master_weights = Precision::kFp32};
}

int weight_bytes(const States& states) { return bytes_per_scalar(states.weights); }

int gradient_bytes(const States& states) { return bytes_per_scalar(states.gradients); }

int optimizer_bytes(const States& states, int slots) {
  return master_bytes(states) + slots * bytes_per_scalar(states.moments);
}

int update_read_bytes(const States& states, int slots) {
  const int weights = states.master_weights ? master_bytes(states) : weight_bytes(states);
  return gradient_bytes(states) + weights + slots * bytes_per_scalar(states.moments);
}

int update_written_bytes(const States& states, int slots) {
  return weight_bytes(states) + optimizer_bytes(states, slots);
}

int update_bytes(const States& states, int slots) {
  return update_read_bytes(states, slots) + update_written_bytes(states, slots);
}

int checkpoint_bytes(const States& states, int slots) { return weight_bytes(states) + optimizer_bytes(states, slots); }

}  // namespace rehearse
