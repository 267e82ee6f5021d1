#include "sim/base/random.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "sim/base/statistics.hpp"

namespace rehearse {

TEST_CASE("FNV-1a gives the published values") {
  CHECK(fnv1a("") == 0xcbf29ce484222325U);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cU);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8U);
  CHECK(fnv1a("bar", fnv1a("foo")) == fnv1a("foobar"));
}

TEST_CASE("SplitMix64 gives the values of its reference code") {
  std::uint64_t state = 1234567;
  CHECK(splitmix64(state) == 6457827717110365317U);
  CHECK(splitmix64(state) == 3203168211198807973U);
  CHECK(splitmix64(state) == 9817491932198370423U);
}

TEST_CASE("xoshiro256** from the state 1, 2, 3, 4 gives the values of its reference code") {
  Xoshiro256 generator{{1, 2, 3, 4}};
  CHECK(generator.next() == 11520);
  CHECK(generator.next() == 0);
  CHECK(generator.next() == 1509978240);
  CHECK(generator.next() == 1215971899390074240U);
}

TEST_CASE("a stream depends on seed and name, and on nothing else") {
  Rng first{7, "stragglers"}, again{7, "stragglers"}, other_seed{8, "stragglers"}, other_name{7, "lifetimes"};
  const std::uint64_t value = first.bits();
  CHECK(value == again.bits());
  CHECK(value != other_seed.bits());
  CHECK(value != other_name.bits());
}

// Computed by a second implementation of the same formulas, in Python.
TEST_CASE("streams do not change between releases: every seeded result depends on it") {
  Rng rng{1, "golden"};
  CHECK(rng.bits() == 17422620851245314074U);
  CHECK(rng.uniform() == 0.34785477336865744);
  CHECK(rng.below(1000) == 214);
  CHECK(rng.exponential(2.0) == doctest::Approx(0.9920115456411119).epsilon(1e-14));
  CHECK(rng.normal() == doctest::Approx(0.46338056959439616).epsilon(1e-14));
}

TEST_CASE("sample moments agree with the distributions within five standard errors") {
  constexpr int kCount = 200'000;
  const double error = 5 / std::sqrt(kCount);
  Rng rng{3, "moments"};
  std::vector<double> uniform, exponential, normal;
  for (int i = 0; i < kCount; ++i) {
    uniform.push_back(rng.uniform(2, 4));
    exponential.push_back(rng.exponential(3));
    normal.push_back(rng.normal());
  }
  CHECK(std::abs(mean(uniform) - 3) < error * 2 / std::sqrt(12));
  CHECK(sample_standard_deviation(uniform) == doctest::Approx(2 / std::sqrt(12)).epsilon(0.01));
  CHECK(std::abs(mean(exponential) - 3) < error * 3);
  CHECK(median(exponential) == doctest::Approx(3 * std::log(2)).epsilon(0.02));
  CHECK(std::abs(mean(normal)) < error);
  CHECK(sample_standard_deviation(normal) == doctest::Approx(1).epsilon(0.01));
  CHECK(percentile(normal, 97.5) == doctest::Approx(1.96).epsilon(0.02));
}

TEST_CASE("below(n) reaches all of 0 .. n-1 equally often, and nothing else") {
  Rng rng{4, "below"};
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts.at(rng.below(7));
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 5 * std::sqrt(10'000));
  CHECK(rng.below(1) == 0);
}

TEST_CASE("uniform values stay inside their half-open range") {
  Rng rng{5, "range"};
  for (int i = 0; i < 10'000; ++i) {
    const double unit = rng.uniform();
    CHECK((unit >= 0 && unit < 1));
    const double narrow = rng.uniform(1.0, std::nextafter(1.0, 2.0));
    CHECK(narrow == 1.0);
  }
  CHECK(rng.uniform(3, 3) == 3);
}

}  // namespace rehearse
