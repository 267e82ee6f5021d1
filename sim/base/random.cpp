#include "sim/base/random.hpp"

#include <bit>
#include <cmath>
#include <numbers>

namespace rehearse {
namespace {

Xoshiro256 seeded(std::uint64_t seed, std::string_view stream) {
  std::uint64_t state = splitmix64(seed) ^ fnv1a(stream);
  const std::uint64_t a = splitmix64(state), b = splitmix64(state), c = splitmix64(state), d = splitmix64(state);
  return Xoshiro256{{a, b, c, d}};
}

}  // namespace

std::uint64_t fnv1a(std::string_view text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

std::uint64_t Xoshiro256::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

Rng::Rng(std::uint64_t seed, std::string_view stream) : generator_{seeded(seed, stream)} {}

double Rng::uniform() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

double Rng::uniform(double low, double high) {
  const double value = low + (high - low) * uniform();
  return value < high ? value : low;  // rounding can reach `high`
}

std::uint64_t Rng::below(std::uint64_t n) {
  const std::uint64_t rejected = (0 - n) % n;  // 2^64 mod n: the smallest values, which would be too frequent
  std::uint64_t value = bits();
  while (value < rejected) value = bits();
  return value % n;
}

double Rng::exponential(double mean) { return -mean * std::log1p(-uniform()); }

double Rng::normal() {
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace rehearse
