#include "sim/base/statistics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace rehearse {

TEST_CASE("mean, deviation and median of 2, 4, 4, 4, 5, 5, 7, 9") {
  const std::vector<double> values{9, 2, 5, 4, 4, 7, 5, 4};
  CHECK(mean(values) == 5);
  CHECK(sample_standard_deviation(values) == doctest::Approx(std::sqrt(32.0 / 7)).epsilon(1e-15));
  CHECK(median(values) == 4.5);
}

TEST_CASE("a percentile interpolates at (n - 1) percent / 100") {
  const std::vector<double> values{40, 10, 30, 20};
  CHECK(percentile(values, 0) == 10);
  CHECK(percentile(values, 100) == 40);
  CHECK(percentile(values, 50) == 25);
  CHECK(percentile(values, 90) == doctest::Approx(37).epsilon(1e-15));  // h = 2.7: 30 + 0.7 * 10
}

TEST_CASE("one value has no spread") {
  const std::vector<double> one{3};
  CHECK(sample_standard_deviation(one) == 0);
  CHECK(percentile(one, 95) == 3);
}

TEST_CASE("an empty sample has no statistics") {
  CHECK_THROWS_AS(mean({}), std::invalid_argument);
  CHECK_THROWS_AS(sample_standard_deviation({}), std::invalid_argument);
  CHECK_THROWS_AS(median({}), std::invalid_argument);
  const std::vector<double> one{3};
  CHECK_THROWS_AS(percentile(one, 101), std::invalid_argument);
  CHECK_THROWS_AS(percentile(one, std::nan("")), std::invalid_argument);
}

}  // namespace rehearse
