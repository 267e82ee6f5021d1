// Sweeps: which combinations, what is run and what is found again, and the table.

#include "sim/plan/sweep.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/csv.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/reversed_executor.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::sweep_test {

namespace {

const std::string kScenario = source_folder() + "/scenarios/cm-dare.json";

const Catalog& catalog() {
  static const Catalog& shipped = test::shipped_catalog();
  return shipped;
}

SweepRequest request(const std::vector<std::string>& grids, const std::string& set = "/training/steps=8") {
  SweepRequest result;
  result.scenario = kScenario;
  if (!set.empty()) result.set.push_back(read_set_option(set, Json::object()));
  for (const std::string& grid : grids) add_axis(result, read_grid_option(grid, Json::object()));
  return result;
}

Sweep sweep_of(SweepRequest wanted) { return Sweep{std::move(wanted), catalog(), "test"}; }

std::string refusal(const std::vector<std::string>& grids, const std::string& constraint = "") {
  try {
    SweepRequest wanted = request(grids);
    if (!constraint.empty()) wanted.constraints.emplace_back("--constraint", constraint);
    Sweep sweep = sweep_of(std::move(wanted));
    (void)sweep.check();
  } catch (const InputError& error) {
    const std::string message = error.what();
    const std::size_t file = message.find(kScenario);
    return file == std::string::npos ? message : std::string{message}.replace(file, kScenario.size(), "FILE");
  } catch (const NoResultError& error) { return std::string{"no result: "} + error.what(); }
  return "accepted";
}

std::size_t run(const Sweep& sweep, ResultStore& store, int parallel = 1) {
  std::size_t simulated = 0;
  CHECK(sweep.run(store, parallel, [&](std::size_t done, std::size_t) { simulated = done; }, {}));
  return simulated;
}

}  // namespace

TEST_CASE("places that are not there are found before anything is read") {
  CHECK(refusal({"/training/stepz=1,2"}) ==
        "--grid /training/stepz: /training/stepz: at /training: unknown key \"stepz\"; did you mean \"steps\"?");
  CHECK(refusal({"/cluster/groups/7/count=1,2"}) ==
        "--grid /cluster/groups/7/count: /cluster/groups is an array of 2, which has no "
        "element \"7\"");
  CHECK(refusal({"/clutser/groups=1"}).find("--grid /clutser/groups: /clutser/groups: at the top level: unknown key") ==
        0);
  CHECK(refusal({"/training/steps=8", "/training/steps=9"}).find("overlaps with --grid /training/steps") !=
        std::string::npos);
  CHECK(refusal({"/training/strategy={}", "/training/strategy/placement=round_robin"}).find("overlaps with") !=
        std::string::npos);
  CHECK(refusal({"/training/steps=9"})
            .find("--set /training/steps: expected a place that nothing else sets; --grid /training/steps does") == 0);
  SweepRequest many = request({});
  std::string choice = "/training/steps=1";
  for (int i = 0; i < 1000; ++i) choice += ";/a" + std::to_string(i) + "=1";
  add_axis(many, read_list_options({choice}, Json::object()));
  CHECK(test::error_of([&] { (void)sweep_of(std::move(many)); }) ==
        "--list /a999: expected at most 1000 places that are set; found more");
  CHECK(refusal({"/cluster/groups/1/count=1,2"}, "workers > 1").find("--constraint: expected JSON pointers") == 0);
  CHECK(refusal({"/cluster/groups/1/count=1,2"}, "/training/stepz > 1").find("did you mean \"steps\"?") !=
        std::string::npos);
}

TEST_CASE("one refused combination is a row; if all are refused, the first error is the sweep's") {
  CHECK(refusal({"/cluster/groups/1/count=0,1"}) == "accepted");
  CHECK(
      refusal({"/cluster/groups/1/count=0,-1"}) ==
      "every combination is refused; the first: --grid /cluster/groups/1/count: expected 1 to 20000 machines; found 0");
  const std::string memory = refusal({"/workload/batch_per_worker=60000,65536"});
  CHECK(memory.find("no result: every combination is refused; the first: ") == 0);
  CHECK(memory.find(": /cluster/groups/1: GPU memory exceeded") != std::string::npos);
  CHECK(refusal({"/cluster/groups/1/count=1,2"}, "/cluster/groups/1/count > 5") ==
        "--constraint: no combination fulfils this condition");
  CHECK(refusal({"/cluster/groups/1/count=1,2"}, "/cluster/groups/0/region > 5").find("--constraint: ") !=
        std::string::npos);
}

TEST_CASE("combinations: the product of the axes, the last one fastest, less what constraints leave out") {
  SweepRequest wanted = request({"/cluster/groups/0/count=1,2", "/cluster/groups/1/count=1..3"});
  wanted.constraints.emplace_back("c", "/cluster/groups/0/count <= /cluster/groups/1/count");
  wanted.constraints.emplace_back("c", "/training/warmup_steps == 5");  // a default
  wanted.seeds = 2;
  Sweep sweep = sweep_of(std::move(wanted));
  CHECK(sweep.combinations() == 12);
  const SweepCheck check = sweep.check();
  CHECK(check.combinations == 12);
  CHECK(check.left_out == 2);
  CHECK(check.failed == 0);
  CHECK(check.distinct == 10);
  std::string text;
  const ResultStore store = ResultStore::temporary();
  sweep.for_each_row(store, [&](const SweepRow& row) {
    text += parameter_text(json_pointer_find(row.scenario, "/cluster/groups/0/count")) +
            parameter_text(json_pointer_find(row.scenario, "/cluster/groups/1/count")) + std::to_string(row.seed) + " ";
    CHECK_FALSE(row.is_finished);
  });
  CHECK(text == "111 112 121 122 131 132 221 222 231 232 ");
}

TEST_CASE("scenarios of one content are simulated once, and not again in another sweep") {
  ResultStore store = ResultStore::temporary();
  Sweep first = sweep_of(request({"/cluster/groups/1/count=1,2,1"}));
  CHECK(first.check().distinct == 2);
  CHECK(run(first, store) == 2);
  CHECK(run(first, store) == 0);
  Sweep second = sweep_of(request({"/cluster/groups/1/count=1..3"}));
  (void)second.check();
  CHECK(second.pending(store) == 1);
  CHECK(run(second, store) == 1);
  Sweep other_words = sweep_of(request({"/training/steps_per_worker=4"}, "/cluster/groups/1/count=2"));
  CHECK_THROWS_AS(other_words.check(), InputError);  // the file has "steps" as well
  Sweep other_program{request({"/cluster/groups/1/count=1..3"}), catalog(), "another version"};
  (void)other_program.check();
  CHECK(other_program.pending(store) == 3);
}

TEST_CASE("a sweep of many runs has each combination's goodput, and knows its rows from those of one run") {
  test::TemporaryFolder folder;
  Json scenario = load_json_file(kScenario);
  scenario["training"]["steps"] = 400;
  scenario["training"]["recovery"] = {{"lost_worker", "restart"}};
  scenario["training"]["checkpoint"] = {{"every_steps", 100}, {"fixed_time", "1s"}, {"rate", "1GBps"}};
  scenario["cluster"]["groups"][1]["faults"] = {{"machine_mtbf", "5min"}};
  SweepRequest wanted;
  wanted.scenario = folder.write("s.json", scenario.dump());
  add_axis(wanted, read_grid_option("/training/checkpoint/every_steps=10,100", Json::object()));
  wanted.runs = 5;
  ResultStore store = ResultStore::temporary();
  Sweep many = sweep_of(wanted);
  (void)many.check();
  many.check_expression(Expression::parse("goodput - lost_time.checkpoints"), false);
  CHECK(run(many, store, 2) == 2);
  CHECK(run(many, store) == 0);
  many.for_each_row(store, [&](const SweepRow& row) {
    REQUIRE_MESSAGE(row.error.empty(), row.error);
    double sum = row.summary["goodput"].get<double>();
    for (const auto& [cause, share] : row.summary["lost_time"].items()) sum += share.get<double>();
    CHECK(sum == doctest::Approx(1).epsilon(1e-12));
    CHECK(row.summary["runs"] == 5);
    Json one = row.scenario;
    const MonteCarlo alone =
        run_monte_carlo(read_scenario(one, wanted.scenario.string(), catalog()), {.runs = 5, .pool = 1});
    CHECK(row.summary["goodput"] == time_use_of(alone).trained / time_use_of(alone).total());
  });
  wanted.runs.reset();
  Sweep once = sweep_of(wanted);
  (void)once.check();
  CHECK(once.pending(store) == 2);
  wanted.runs = 6;
  Sweep more = sweep_of(wanted);
  (void)more.check();
  CHECK(more.pending(store) == 2);
}

TEST_CASE("the table is the same however many simulations run at a time, and holds what simulate gives") {
  std::string tables[2];
  for (const int parallel : {1, 2}) {
    ResultStore store = ResultStore::temporary();
    Sweep sweep = sweep_of(request({"/workload/batch_per_worker=32,64,60000", "/cluster/groups/1/count=3,1"}));
    CHECK(sweep.check().failed == 2);
    CHECK(run(sweep, store, parallel) == 4);
    tables[parallel - 1] = sweep.csv(store);
  }
  CHECK(tables[0] == tables[1]);
  const CsvTable table = parse_csv(tables[0], "sweep.csv");
  CHECK(table.row_count() == 6);
  const Json alone = test::simulated(test::shipped_scenario(
      {{"/training/steps", "8"}, {"/workload/batch_per_worker", "64"}, {"/cluster/groups/1/count", "3"}}));
  CHECK(table.row(2).text("/workload/batch_per_worker") == "64");
  CHECK(table.row(2).number("seed") == 1);
  CHECK(table.row(2).number("steps_per_s") == alone["steps_per_s"].get<double>());
  CHECK(table.row(2).text("fingerprint") == alone["fingerprint"].get<std::string>());
  CHECK(table.row(2).text("error").empty());
  CHECK(table.row(4).text("steps_per_s").empty());
  CHECK(table.row(4).text("error").find("/cluster/groups/1: GPU memory exceeded") != std::string_view::npos);
}

TEST_CASE("a place inside of what a name stands for can be swept") {
  Sweep sweep = sweep_of(request({"/calibration/servers/time_per_variable=100us,20ms"}));
  CHECK(sweep.check().distinct == 2);
  ResultStore store = ResultStore::temporary();
  run(sweep, store);
  const CsvTable table = parse_csv(sweep.csv(store), "sweep.csv");
  CHECK(table.row(0).text("/calibration/servers/time_per_variable") == "100us");
  CHECK(table.row(0).number("steps_per_s") > 2 * table.row(1).number("steps_per_s"));
}

TEST_CASE("conditions on results know the keys of a summary before anything has run") {
  Sweep sweep = sweep_of(request({"/cluster/groups/1/count=1,2"}));
  (void)sweep.check();
  const auto refusal_of = [&](const std::string& text, bool is_condition) -> std::string {
    try {
      sweep.check_expression(Expression::parse(text), is_condition);
    } catch (const InputError& error) { return error.what(); }
    return "accepted";
  };
  CHECK(refusal_of("steps_per_s > 10 and cost_usd < 5 and seed == 1", true) == "accepted");
  CHECK(refusal_of("/cluster/groups/1/count > 1 and bottleneck_resource == 'worker_gpu'", true) == "accepted");
  CHECK(refusal_of("steps_per_sec > 10", true) ==
        "\"steps_per_sec > 10\": unknown value \"steps_per_sec\"; did you mean \"steps_per_s\"?");
  CHECK(refusal_of("bottleneck_resource > 10", true).find("found a text and a number") != std::string::npos);
  CHECK(refusal_of("steps_per_s", true).find("expected a condition") != std::string::npos);
  CHECK(refusal_of("steps_per_s > 1", false).find("expected a number") != std::string::npos);
  CHECK(refusal_of("/training/nothing > 1", true) == "/training/nothing: the scenario has nothing there");
}

TEST_CASE("every place of the schema is known, and nothing else") {
  const Json schema = parse_json(scenario_schema(), "schema");
  CHECK_NOTHROW(expect_known_place(schema, "/cluster/groups/0/count"));
  CHECK_NOTHROW(expect_known_place(schema, "/workload/model/structure/layers/0"));
  CHECK_NOTHROW(expect_known_place(schema, ""));
  CHECK_THROWS_AS(expect_known_place(schema, "/cluster/groups/0/cout"), InputError);
  CHECK_NOTHROW(expect_known_place(schema, "/cluster/network/uplinks"));
  CHECK_THROWS_AS(expect_known_place(schema, "/cluster/network/uplnks"), InputError);
  CHECK_THROWS_AS(expect_known_place(schema, "/x"), InputError);
}

TEST_CASE("another executor gives the same bytes, and it has seen nothing but texts") {
  SweepRequest wanted = request({"/cluster/groups/1/count=1..3", "/workload/batch_per_worker=32,60000"});
  wanted.seeds = 2;
  Sweep sweep = sweep_of(std::move(wanted));
  (void)sweep.check();
  ResultStore own = ResultStore::temporary(), other = ResultStore::temporary();
  run(sweep, own, 2);
  std::vector<std::string> texts;
  CHECK(sweep.run(other, test::reversed_pool(texts), {}, {}));
  CHECK(texts.size() == 6);
  CHECK(sweep.csv(other) == sweep.csv(own));
  for (const std::string& text : texts) CHECK(Json::parse(text)["verb"] == "simulate");
}

}  // namespace rehearse::sweep_test
