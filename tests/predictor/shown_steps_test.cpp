// A step that is repeated shows bursts and gaps as a monitor samples them.

#include "predictor/shown_steps.hpp"

#include <doctest/doctest.h>

#include "predictor/dataset.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

TEST_CASE("a kernel of half a step is a burst of half a step, whatever fits into a sample") {
  Scenario scenario = test::resolved(test::shipped_scenario({{"/training/strategy/synchronization", "synchronous"}}));
  scenario.output.sampling_period = Seconds{0.001};
  scenario.training.warmup_steps = 1;
  ShownSteps steps{.period = 0.1,
                   .gpu = {{0, 0.05, 0.05}},
                   .memory = {{0, 0.05, 0.01}},
                   .received = {{0.02, 0.04, 1e6}},
                   .transmitted = {}};
  std::vector<double> labels = shown_labels(steps, scenario);
  REQUIRE(labels.size() == label_names().size());
  CHECK(labels[2] == doctest::Approx(0.2));   // memory's peak
  CHECK(labels[3] == doctest::Approx(0.05));  // the GPU's idle and active time, and its peak
  CHECK(labels[4] == doctest::Approx(0.05));
  CHECK(labels[5] == doctest::Approx(1));
  CHECK(labels[6] == doctest::Approx(0.08));  // what is received
  CHECK(labels[7] == doctest::Approx(0.02));
  CHECK(labels[8] == doctest::Approx(5e7));
  CHECK(labels[10] == 0);  // nothing is sent
  CHECK(labels[12] == 0.1);
  CHECK(labels[13] == doctest::Approx(1e7));
  scenario.output.sampling_period = Seconds{0.1};  // never idle, half busy
  labels = shown_labels(steps, scenario);
  CHECK(labels[3] == 0);
  CHECK(labels[5] == doctest::Approx(0.5));
}

}  // namespace rehearse
