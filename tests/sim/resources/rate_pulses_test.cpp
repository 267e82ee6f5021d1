#include "sim/resources/rate_pulses.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "sim/base/random.hpp"

namespace rehearse {

TEST_CASE("pulses in samples") {
  // 4 from 0.5 to 1.5 and from 2.5 to 3.5; samples of 1.
  const RatePulses twice{.start = 0.5, .length = 1, .rate = 4, .count = 2, .every = 2};
  CHECK(twice.end() == 3.5);
  CHECK(twice.until(0.25) == 0);
  CHECK(twice.until(1) == 2);
  CHECK(twice.until(2) == 4);
  CHECK(twice.until(3) == 6);
  CHECK(twice.until(9) == 8);
  std::vector<double> sums(4);
  add_to_samples(twice, 1, 0, sums);
  CHECK(sums == std::vector<double>{2, 2, 2, 2});
  sums.assign(2, 0);
  add_to_samples(twice, 2, 0, sums);  // longer than from one pulse to the next
  CHECK(sums == std::vector<double>{4, 4});
  sums.assign(1, 0);
  add_to_samples(twice, 1, 3, sums);
  CHECK(sums == std::vector<double>{2});
  std::vector<RatePulses> parts;
  append_within(twice, 1, 3, parts);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].start == 1);
  CHECK(parts[0].length == 0.5);
  CHECK(parts[1].start == 2.5);
  CHECK(parts[1].length == 0.5);
}

TEST_CASE("however pulses are cut and sampled, what they carry stays") {
  Rng random{1, "pulses"};
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const double length = 0.01 + random.uniform();
    const RatePulses pulses{.start = 5 * random.uniform(),
                            .length = length,
                            .rate = 1 + random.uniform(),
                            .count = 1 + static_cast<std::int64_t>(random.below(30)),
                            .every = length + random.uniform()};
    const double all = pulses.rate * pulses.length * static_cast<double>(pulses.count);
    const double from = 20 * random.uniform(), to = from + 20 * random.uniform();
    std::vector<RatePulses> parts;
    append_within(pulses, 0, from, parts);
    append_within(pulses, from, to, parts);
    append_within(pulses, to, 1e9, parts);
    for (const double period : {0.03, 0.4, 1.7, 11.0}) {
      std::vector<double> whole(static_cast<std::size_t>(100 / period)), of_parts = whole;
      add_to_samples(pulses, period, 0, whole);
      for (const RatePulses& part : parts) add_to_samples(part, period, 0, of_parts);
      CHECK(std::accumulate(whole.begin(), whole.end(), 0.0) == doctest::Approx(all).epsilon(1e-12));
      for (std::size_t s = 0; s < whole.size(); ++s) {
        CHECK(whole[s] <= pulses.rate * period * (1 + 1e-12));
        CHECK(whole[s] == doctest::Approx(of_parts[s]).epsilon(1e-9).scale(period));
      }
    }
  }
}

}  // namespace rehearse
