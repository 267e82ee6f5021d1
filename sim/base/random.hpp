#pragma once
// Random streams. Each use has its own named stream, so adding one moves no other:  Rng stragglers{seed, "stragglers"};
// Generator and transforms are ours, because std:: distributions differ between libraries.

#include <array>
#include <cstdint>
#include <string_view>

namespace rehearse {

/// FNV-1a, 64 bits: a hash that is the same on every machine. `hash` continues an earlier one.
std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325U);

/// SplitMix64: advances `state` and returns the next value. Source: Steele, Lea and Flood, OOPSLA 2014.
std::uint64_t splitmix64(std::uint64_t& state);

/// xoshiro256**: 256 bits of state, period 2^256 - 1. Source: Blackman and Vigna, ACM TOMS 47(4), 2021.
class Xoshiro256 {
 public:
  explicit Xoshiro256(std::array<std::uint64_t, 4> state) : state_{state} {}
  std::uint64_t next();

 private:
  std::array<std::uint64_t, 4> state_;
};

/// The random stream `stream` of the run with this `seed`.
class Rng {
 public:
  Rng(std::uint64_t seed, std::string_view stream);

  /// All 64-bit values, equally likely.
  std::uint64_t bits() { return generator_.next(); }
  /// A number in [0, 1), uniform, a multiple of 2^-53.
  double uniform();
  /// A number in [low, high), uniform; low if both are equal.
  double uniform(double low, double high);
  /// An integer in 0 .. n-1, without bias; n >= 1.
  std::uint64_t below(std::uint64_t n);
  /// An exponential number: -mean ln(1 - u), u = uniform().
  double exponential(double mean);
  /// A standard normal number by Box and Muller: sqrt(-2 ln(1 - u)) cos(2 pi v). Takes exactly two draws.
  double normal();

 private:
  Xoshiro256 generator_;
};

}  // namespace rehearse
