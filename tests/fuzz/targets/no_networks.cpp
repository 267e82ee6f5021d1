// In place of networks.cpp where the predictor, and LibTorch with it, is left out.

#include "tests/fuzz/targets/targets.hpp"

namespace rehearse::fuzz {

std::span<const Target> targets_of_networks() { return {}; }

}  // namespace rehearse::fuzz
