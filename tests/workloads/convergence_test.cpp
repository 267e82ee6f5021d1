#include "workloads/convergence.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/released_convergence.hpp"

namespace rehearse {

namespace {

Convergence released() { return test::released_convergence(10); }

std::string problem_of(const std::string& text) {
  const Json json = parse_json(text, "c.json");
  try {
    (void)read_convergence(JsonReader{json, "c.json"});
  } catch (const InputError& error) { return error.what(); }
  return {};
}

}  // namespace

TEST_CASE("n equal workers are spread by sqrt(1 - 1/n)") {
  CHECK(speed_spread({7}) == 0);
  for (const int n : {2, 3, 4, 10})
    CHECK(speed_spread(std::vector(static_cast<std::size_t>(n), 3.5)) ==
          doctest::Approx(std::sqrt(1 - 1.0 / n)).epsilon(1e-12));
  // One fast and one slow worker with shares 0.64 and 0.36, in any order: 0.36 sqrt(2) = 0.509, 0.51 in Table VI
  CHECK(speed_spread({0.36, 0.64}) == doctest::Approx(0.36 * std::sqrt(2)).epsilon(1e-12));
}

TEST_CASE("updates to a loss of 0.8 are those of the released code, for every plan that it was run on") {
  const CsvTable plans = load_csv_file(std::filesystem::path{source_folder()} /
                                       "calibration/data/spotdnn/released_code_predictor_outputs.csv");
  for (const CsvRow plan : plans.rows()) {
    const ConvergenceCluster cluster{.workers = static_cast<int>(plan.integer("workers")),
                                     .weighted_batch = plan.number("wa_batch"),
                                     .spread = 0.5};  // left out
    CHECK(updates_to_loss(released(), cluster, 0.8) ==
          doctest::Approx(plan.number("iterations_to_loss_0.8")).epsilon(1e-9));
  }
  CHECK(plans.row_count() == 21);
}

TEST_CASE("the loss after as many updates as a loss takes is that loss") {
  Convergence model = released();
  const ConvergenceCluster cluster{.workers = 6, .weighted_batch = 1500, .spread = 0.8};
  CHECK(loss_after(model, cluster, updates_to_loss(model, cluster, 0.9)) == doctest::Approx(0.9).epsilon(1e-12));
  // A = (2507.6 - 0.2 x 1500) sqrt((0.8 + 0.3) 6); A / (0 + 876.5) + 0.5
  model.spread_offset = 0.3;
  const double a = 2207.6 * std::sqrt(6.6);
  CHECK(loss_after(model, cluster, 0) == doctest::Approx(a / 876.5 + 0.5).epsilon(1e-12));
  model.offset = {};
  model.initial_loss = 4.5;
  CHECK(loss_after(model, cluster, 0) == doctest::Approx(4.5).epsilon(1e-12));
  CHECK(loss_after(model, cluster, a / 4) == doctest::Approx(2.5).epsilon(1e-12));  // half of what is above the floor
  CHECK(updates_to_loss(model, cluster, 5) == 0);
}

TEST_CASE("where the model gives nonsense there is no result") {
  const ConvergenceCluster huge{.workers = 1, .weighted_batch = 12539, .spread = 0};  // 2507.6 / 0.2 = 12538
  CHECK_THROWS_WITH_AS((void)updates_to_loss(released(), huge, 0.8),
                       "the convergence model does not hold for 1 workers with 12539 samples per update: it was fitted "
                       "for 1024 to 2048",
                       NoResultError);
  const ConvergenceCluster one{.workers = 1, .weighted_batch = 1024, .spread = 0};
  CHECK_THROWS_WITH_AS((void)updates_to_loss(released(), one, 0.5),
                       "a loss of 0.5 is not reached: the convergence model's floor is 0.5", NoResultError);
}

TEST_CASE("a convergence model is read with its range, and mistakes are named") {
  CHECK(problem_of(R"({ "offset": 876.5, "batch_slope": -0.2, "batch_intercept": 2507.6, "floor": 0.5,
                        "weighted_batch": [1024, 2048], "workers": [1, 10], "source": "test" })")
            .empty());
  CHECK(problem_of(R"({ "batch_slope": -0.2, "batch_intercept": 2507.6, "floor": 0.5,
                        "weighted_batch": [1024, 2048], "workers": [1, 10], "source": "test" })") ==
        "c.json: expected \"offset\" or \"initial_loss\"; found neither");
  CHECK(problem_of(R"({ "offset": 1, "batch_slope": -0.2, "batch_intercept": 2507.6, "floor": 0.5,
                        "weighted_batch": [2048, 1024], "workers": [1, 10], "source": "test" })") ==
        "c.json: /weighted_batch: expected the smallest and the largest that the fit has seen; found an array of 2");
}

}  // namespace rehearse
