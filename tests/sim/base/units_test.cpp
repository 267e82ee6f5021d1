#include "sim/base/units.hpp"

#include <doctest/doctest.h>

#include <type_traits>

namespace rehearse {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};

}  // namespace

static_assert(Addable<Seconds, Seconds>);
static_assert(!Addable<Seconds, Bytes>);
static_assert(!std::is_convertible_v<double, Seconds>);
static_assert(std::is_same_v<decltype(1_B / 1_GBps), Seconds>);

TEST_CASE("bytes over a rate, and work over a speed, are times") {
  CHECK((100_MB / 25_GBps).value() == doctest::Approx(4e-3).epsilon(1e-15));
  CHECK((Flops{3.12e12} / 312.0_Tflops).value() == doctest::Approx(1e-2).epsilon(1e-15));
}

TEST_CASE("the ratio of like quantities is a plain number") {
  CHECK(3.0_s / 1.5_s == 2.0);
  CHECK(1_B / 4_B == 0.25);
}

TEST_CASE("sums of bytes are exact beyond the 2^53 of a double") {
  const Bytes large{std::int64_t{1} << 53};
  CHECK((large + 1_B).value() - large.value() == 1);
}

}  // namespace rehearse
