#include "sim/pool/experiment.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/errors.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// The number of its job; the third one fails.
const Verb kNumber{"number", [](const Scenario, const JsonReader& options) {
                     const auto number = options.required<int>("number");
                     if (number == 2) throw NoResultError{"it fails"};
                     return Json{{"number", number}}.dump();
                   }};

Experiment numbers(std::size_t count) {
  const Scenario scenario = test::resolved(test::shipped_scenario());
  return {.count = count,
          .job =
              [=](std::size_t i) {
                return kNumber.job(scenario, {{"number", i}});
              },
          .key = [](std::size_t i) { return run_key("number " + std::to_string(i), "test"); },
          .row = [](std::size_t i) { return StoredRun{.name = "row " + std::to_string(i), .parameters = "{}"}; }};
}

}  // namespace

TEST_CASE("an experiment gives what all of its jobs gave, in their order") {
  std::vector<std::size_t> counts;
  const auto runs = numbers(4).run({.pool = 2, .on_done = [&](std::size_t done, std::size_t total) {
                                      counts.push_back(done);
                                      CHECK(total == 4);
                                    }});
  REQUIRE(runs);
  REQUIRE(runs->size() == 4);
  for (const std::size_t i : {0U, 1U, 3U}) CHECK((*runs)[i].json()["number"] == i);
  CHECK((*runs)[2].text == "it fails");
  CHECK(counts == std::vector<std::size_t>{1, 2, 3, 4});
}

TEST_CASE("an experiment that is stopped has no result, and with a budget ends as that says") {
  CHECK_FALSE(numbers(3).run({.limits = {.is_stopped = [] { return true; }, .job_wall_s = {}}}));
  CHECK_THROWS_AS((void)numbers(3).run(1, {}, Budget{{}, [] { return true; }}), Interrupted);
  CHECK(numbers(2).run(1, {}, Budget{}).size() == 2);
}

TEST_CASE("a store's experiment runs what the store lacks, and what has died there") {
  ResultStore store = ResultStore::temporary();
  const Experiment experiment = numbers(4);
  StoredRun known = experiment.row(0), died = experiment.row(1);
  known.summary = "kept";
  died.error = "killed";
  died.has_died = true;
  store.put(experiment.key(0), known);
  store.put(experiment.key(1), died);
  std::size_t asked = 0;
  CHECK(experiment.run(store, {.pool = 2, .on_done = [&](std::size_t, std::size_t total) { asked = total; }}));
  CHECK(asked == 3);
  CHECK(store.find(experiment.key(0))->summary == "kept");
  CHECK(store.find(experiment.key(1))->summary == R"({"number":1})");
  CHECK(store.find(experiment.key(2))->error == "it fails");
  CHECK(store.find(experiment.key(3))->name == "row 3");
  CHECK_FALSE(Experiment{numbers(5)}.run(store, {.limits = {.is_stopped = [] { return true; }, .job_wall_s = {}}}));
}

}  // namespace rehearse
