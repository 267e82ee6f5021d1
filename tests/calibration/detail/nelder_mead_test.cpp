#include "calibration/detail/nelder_mead.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace rehearse {

TEST_CASE("the valley of Rosenbrock's function ends at (1, 1)") {
  const auto rosenbrock = [](const std::vector<double>& x) {
    return 100 * std::pow(x[1] - x[0] * x[0], 2) + std::pow(1 - x[0], 2);
  };
  const Minimum minimum = nelder_mead(rosenbrock, {-1.2, 1}, 0.5, 1e-14, 2000);
  CHECK(minimum.at[0] == doctest::Approx(1).epsilon(1e-5));
  CHECK(minimum.at[1] == doctest::Approx(1).epsilon(1e-5));
  CHECK(minimum.value < 1e-10);
}

TEST_CASE("places without a value are avoided") {
  const auto root = [](const std::vector<double>& x) {
    return x[0] < 0 ? std::numeric_limits<double>::quiet_NaN() : std::abs(std::sqrt(x[0]) - 0.1);
  };
  CHECK(nelder_mead(root, {2}, -1, 1e-12, 1000).at[0] == doctest::Approx(0.01).epsilon(1e-3));
}

TEST_CASE("a function of nothing has its value") {
  CHECK(nelder_mead([](const std::vector<double>&) { return 3.0; }, {}, 1, 1e-9, 10).value == 3);
}

}  // namespace rehearse
