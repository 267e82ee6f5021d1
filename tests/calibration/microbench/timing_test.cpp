#include "calibration/microbench/timing.hpp"

#include <doctest/doctest.h>

namespace rehearse::microbench {

TEST_CASE("a sample is the median and the least of its runs") {
  const Sample sample = summarize({3, 1, 2, 100});
  CHECK(sample.time == doctest::Approx(2.5));
  CHECK(sample.least == 1);
  CHECK(sample.samples == 4);
  CHECK(summarize({}).samples == 0);
}

TEST_CASE("runs are repeated until they have taken long enough, short ones within a sample") {
  double now = 0;
  int runs = 0;
  const auto run_of = [&](double seconds) {
    return [&now, &runs, seconds](int number) {
      CHECK(number == runs);  // each run has the next number, so that buffers are taken in turn
      ++runs;
      now += seconds;
    };
  };
  const auto clock = [&now] { return now; };
  const Effort effort{.seconds = 1, .fewest_samples = 3, .most_samples = 1000, .shortest = 0.1};
  // Runs of 0.25 s: two to warm up, four samples.
  CHECK(sample(run_of(0.25), clock, effort).size() == 4);
  CHECK(runs == 6);
  // Of 0.01 s: ten within a sample of 0.1 s, ten samples.
  runs = 0;
  const auto short_ones = sample(run_of(0.01), clock, effort);
  CHECK((short_ones.size() >= 10 && short_ones.size() <= 11));
  CHECK(short_ones.front() == doctest::Approx(0.01));
  // Of 10 s: the fewest samples.
  runs = 0;
  CHECK(sample(run_of(10), clock, effort).size() == 3);
}

TEST_CASE("an interrupt leaves enough samples or none") {
  double now = 0;
  int left = 0;
  const auto run = [&](int) { now += 1; };
  const auto clock = [&] { return now; };
  const auto is_over = [&] { return left-- <= 0; };
  const Effort effort{.seconds = 1e9, .fewest_samples = 3, .most_samples = 1000};
  left = 2;
  CHECK(sample(run, clock, effort, is_over).empty());
  left = 5;
  CHECK(sample(run, clock, effort, is_over).size() == 5);
}

}  // namespace rehearse::microbench
