// Plans of given machines: the space, the closed form that ranks them, and the search, beside the simulation of all plans.

#include "sim/plan/degree_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/random.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "tests/support/from_environment.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse::degree_search_test {

namespace {

const std::string kFile = "search.json";

/// A small GPT-like model on machines of four V100 with 16 GB.
Json small_training(int machines, int layers, const std::string& memory = "16GiB") {
  Json scenario = parse_json(R"json({
    "format": 1, "name": "small",
    "workload": {
      "model": { "format": 1, "source": "test", "structure": { "family": "transformer", "layers": 4, "width": 512, "heads": 8,
        "feed_forward": 2048, "vocabulary": 8192, "sequence_length": 512, "normalisation": "pre", "fused_attention": true,
        "rotary_positions": true, "dropout": false, "tied_embedding": false, "head": "language_model" } },
      "batch_per_worker": 1, "optimizer": "adam", "precision": "fp16" },
    "cluster": { "groups": [ { "name": "machines", "role": "worker", "count": 1, "region": "us-east-1", "instance": "p3.8xlarge" } ] },
    "training": { "strategy": { "kind": "all_reduce", "algorithm": "ring" }, "steps": 2, "warmup_steps": 0, "target": { "samples": 64000 } },
    "calibration": "kernels" })json",
                             kFile);
  scenario["workload"]["model"]["structure"]["layers"] = layers;
  Json& group = scenario["cluster"]["groups"][0];
  group["count"] = machines;
  make_inline(scenario, "/cluster/groups/0/instance/accelerator/memory", kFile, test::shipped_catalog());
  group["instance"]["accelerator"]["memory"] = memory;
  return scenario;
}

Scenario plain(Json scenario) {
  clear_degrees(scenario);
  scenario["training"]["memory_check"] = "warn";
  return read_scenario(scenario, kFile, test::shipped_catalog(), {}, {.seeks_remedies = false});
}

DegreeSearch search(const Json& scenario, std::int64_t batch, const DegreeOptions& options, int parallel = 2) {
  ResultStore store = ResultStore::temporary();
  return search_degrees(scenario, kFile, batch, test::shipped_catalog(), options,
                        {.pool = parallel, .store = store, .program = "test"});
}

EstimateInputs ideal_inputs(int gpus) {
  EstimateInputs inputs{.gpus = gpus,
                        .island = 4,
                        .global_batch = 64,
                        .layers = 8,
                        .parameters = 1e9,
                        .weight_bytes = 2,
                        .sent_bytes = 2,
                        .gradient_bytes = 2,
                        .optimizer_bytes = 12};
  inputs.near_s_per_byte["ring"] = inputs.far_s_per_byte["ring"] = 0;
  return inputs;
}

}  // namespace

TEST_CASE("a plan's step by the closed form, where nothing is exchanged: (m + (p - 1) / v) passes of a stage") {
  const EstimateInputs inputs = ideal_inputs(8);
  const auto step = [&](Degrees degrees) {
    degrees.algorithm = "ring";
    return estimate_step(inputs, degrees, 1);
  };
  CHECK(step({}) == doctest::Approx(8));  // 64 samples of 8 workers, each in a pass of 1 s
  // Two workers have 32 micro-batches each, and a stage of four takes a quarter of a pass.
  CHECK(step({.stages = 4, .schedule = "1f1b"}) == doctest::Approx((32 + 3) / 4.0));
  CHECK(step({.stages = 4, .schedule = "interleaved", .chunks = 2}) == doctest::Approx((32 + 1.5) / 4.0));
  CHECK(step({.stages = 4, .schedule = "zb1p"}) == doctest::Approx((32 + 1) / 4.0));
  CHECK(step({.stages = 4, .schedule = "zbv", .chunks = 2}) == doctest::Approx((32 + 0.5) / 4.0));
  CHECK(step({.stages = 4, .schedule = "dualpipev", .chunks = 2}) == doctest::Approx((32 + 1) / 4.0));
  CHECK(step({.stages = 4, .schedule = "1f1b", .microbatch = 4}) == doctest::Approx((8 + 3) / 4.0));
}

TEST_CASE("states of a plan in bytes: 16 of a parameter, 4 + 12 / D, 2 + 14 / D, 16 / D") {
  const EstimateInputs inputs = ideal_inputs(8);
  const auto bytes = [&](const Degrees& degrees) { return least_state_bytes(inputs, degrees) / 1e9; };
  CHECK(bytes({}) == doctest::Approx(16));
  CHECK(bytes({.sharding = "optimizer"}) == doctest::Approx(4 + 12 / 8.0));
  CHECK(bytes({.sharding = "gradients"}) == doctest::Approx(2 + 14 / 8.0));
  CHECK(bytes({.sharding = "parameters"}) == doctest::Approx(16 / 8.0));
  CHECK(bytes({.tensor = 2, .stages = 2, .sharding = "parameters"}) == doctest::Approx(16 / 8.0));
  CHECK(bytes({.tensor = 2, .stages = 2, .sharding = "optimizer"}) == doctest::Approx(4 / 4.0 + 12 / 8.0));
}

TEST_CASE("every plan of a space is another one, of whole micro-batches, and can be trained but for its memory") {
  const Json scenario = small_training(2, 4);
  const DegreeSpace space = degree_space(plain(scenario), 32, "ring");
  CHECK(space.plans.size() > 100);
  CHECK(std::set<Degrees>(space.plans.begin(), space.plans.end()).size() == space.plans.size());
  std::size_t read = 0;
  for (const Degrees& degrees : space.plans) {
    CAPTURE(to_text(degrees, 8));
    CHECK(degrees.tensor <= 4);  // within a machine
    CHECK(8 % (degrees.tensor * degrees.stages) == 0);
    CHECK(microbatches(degrees, 8, 32) * (8 / (degrees.tensor * degrees.stages)) * degrees.microbatch == 32);
    Json own = scenario;  // whose other keys stay, as far as they go with the degrees
    own["training"]["strategy"]["tensor"] = {{"degree", 2}, {"sequence_parallel", true}, {"asynchronous", true}};
    set_degrees(own, degrees, 32);
    const Scenario its = read_scenario(own, kFile, test::shipped_catalog());
    CHECK(its.training.strategy.exchange.accumulation_steps == microbatches(degrees, 8, 32));
    ++read;
  }
  CHECK(read == space.plans.size());
}

TEST_CASE("stages are side by side or apart where that tells which of them share a machine") {
  const auto of_order = [](const DegreeSpace& space, bool is_first) {
    return std::ranges::count(space.plans, is_first, &Degrees::has_stages_first);
  };
  const Json two_machines = small_training(2, 4);
  const DegreeSpace space = degree_space(plain(two_machines), 32, "ring");
  CHECK(of_order(space, true) > 0);
  for (const Degrees& degrees : space.plans)
    if (degrees.has_stages_first) {
      CHECK((degrees.stages > 1 && degrees.tensor < 4 && degrees.stages * degrees.tensor < 8));
      Json own = two_machines;
      set_degrees(own, degrees, 32);
      CHECK(own["training"]["strategy"]["rank_order"] == "tensor_pipeline_data");
    }
  CHECK(of_order(degree_space(plain(small_training(1, 8)), 32, "ring"), true) == 0);
  // What a scenario states is kept.
  CHECK(of_order(degree_space(plain(two_machines), 32, "ring", "tensor_data_pipeline"), true) == 0);
}

TEST_CASE("passes are merged where experts exchange tokens, and folded pipelines are tried") {
  Json scenario = small_training(1, 8);
  scenario["workload"]["model"]["structure"].update({{"experts", 4},
                                                     {"experts_per_token", 2},
                                                     {"expert_feed_forward", 512},
                                                     {"grouped_experts", true},
                                                     {"gated_feed_forward", true}});
  std::map<std::pair<std::string, bool>, int> trained;  // plans by schedule and whether passes are merged
  for (const Degrees& degrees : degree_space(plain(scenario), 32, "ring").plans) {
    CHECK((degrees.schedule == "none") == (degrees.stages == 1));
    if (!degrees.merges_passes && degrees.schedule != "zbv") continue;
    CAPTURE(to_text(degrees, 4));
    CHECK((!degrees.merges_passes || degrees.experts > 1));
    Json own = scenario;
    set_degrees(own, degrees, 32);
    try {
      const Scenario its = read_scenario(own, kFile, test::shipped_catalog());
      const Pipeline* pipeline = its.training.strategy.kind->pipeline();
      REQUIRE(pipeline != nullptr);
      CHECK(pipeline->is_folded() == (degrees.schedule != "interleaved"));
      CHECK(pipeline->chunks == degrees.chunks);
      ++trained[{degrees.schedule, degrees.merges_passes}];
    } catch (const InputError&) {}  // degrees of experts that do not divide the workers of a stage
  }
  CHECK(trained.size() == 3);
  for (const auto& [plan, count] : trained) CHECK(count > 10);
}

TEST_CASE("states by the closed form are no more than what the fullest GPU needs") {
  const Json scenario = small_training(2, 6);
  const Scenario base = plain(scenario);
  EstimateInputs inputs{.gpus = 8, .island = 4, .global_batch = 32, .layers = 6};
  inputs.parameters = static_cast<double>(base.workload.parameters());
  inputs.weight_bytes = 2;
  inputs.gradient_bytes = 2;
  inputs.optimizer_bytes = 12;
  for (const Degrees& degrees : degree_space(base, 32, "ring").plans) {
    CAPTURE(to_text(degrees, 8));
    Json own = scenario;
    set_degrees(own, degrees, 32);
    const Scenario its = read_scenario(own, kFile, test::shipped_catalog());
    CHECK(least_state_bytes(inputs, degrees) <= as_double(gpu_memory_needed(its, its.first_workers())));
  }
}

TEST_CASE(
    "a micro-batch of a kth of the samples takes a kth of the memory at least, and errors say how much is missing") {
  const Json scenario = small_training(2, 6, "500MiB");
  std::map<Degrees, std::vector<std::pair<int, double>>> needed;  // by plan but for its micro-batch
  int refused = 0;
  for (const Degrees& degrees : degree_space(plain(scenario), 32, "ring").plans) {
    CAPTURE(to_text(degrees, 8));
    Json own = scenario;
    set_degrees(own, degrees, 32);
    own["training"]["memory_check"] = "warn";
    const Scenario its = read_scenario(own, kFile, test::shipped_catalog(), {}, {.seeks_remedies = false});
    const double bytes = as_double(gpu_memory_needed(its, its.first_workers()));
    Degrees family = degrees;
    family.microbatch = 0;
    needed[family].emplace_back(degrees.microbatch, bytes);
    own["training"].erase("memory_check");
    try {
      (void)read_scenario(own, kFile, test::shipped_catalog(), {}, {.seeks_remedies = false});
    } catch (const NoResultError& error) {
      ++refused;
      CHECK(memory_exceeded_by(error.what()) ==
            doctest::Approx(bytes / as_double(its.first_workers().accelerator->memory)).epsilon(0.01));
    }
  }
  CHECK(refused > 20);
  for (const auto& [family, batches] : needed)
    for (const auto& [larger, bytes] : batches)
      for (const auto& [smaller, its_bytes] : batches)
        if (smaller < larger) CHECK(its_bytes >= bytes * smaller / larger * 0.98);
}

TEST_CASE("passes are simulated once for the same machines, however many there are") {
  ResultStore store = ResultStore::temporary();
  std::size_t done = 0;
  const SearchMeans means{.pool = 2, .store = store, .program = "test", .on_done = [&](std::size_t) { ++done; }};
  const auto simulations_of = [&](int machines) {
    Json scenario = small_training(machines, 3);
    scenario["name"] = std::to_string(machines) + " machines";
    scenario["cluster"]["groups"][0]["market"] = machines == 2 ? "spot" : "on-demand";
    done = 0;
    const DegreeSearch found =
        search_degrees(scenario, kFile, 32, test::shipped_catalog(), {.least = 1, .most = 8}, means);
    return std::pair{done, found.simulated};
  };
  const auto [first, its] = simulations_of(1);
  CHECK(first > its);
  const auto [second, others] = simulations_of(2);
  CHECK(second - others < first / 4);
}

TEST_CASE("a search is never worse than the simulation of all plans, and refuses what simulate refuses") {
  Rng random{test::from_environment("REHEARSE_FIRST_SEED", 1), "searches"};
  const std::uint64_t questions = test::from_environment("REHEARSE_QUESTIONS", 4);
  for (std::uint64_t question = 0; question < questions; ++question) {
    const int machines = 1 + static_cast<int>(random.uniform() * 2),
              layers = 2 + static_cast<int>(random.uniform() * 3);
    const std::int64_t batch = std::int64_t{8} << static_cast<int>(random.uniform() * 2);
    const std::string memory = random.uniform() < 0.5 ? "16GiB" : "1400MiB";
    CAPTURE(machines);
    CAPTURE(layers);
    CAPTURE(batch);
    CAPTURE(memory);
    const Json scenario = small_training(machines, layers, memory);
    const DegreeSearch all = search(scenario, batch, {.is_exhaustive = true});
    const DegreeSearch found = search(scenario, batch, {.least = 8});
    REQUIRE(all.best() != nullptr);
    REQUIRE(found.best() != nullptr);
    CHECK(found.best()->step_s <= all.best()->step_s * (1 + 1e-12));
    CHECK(all.not_tried == 0);
    CHECK(found.simulated < all.simulated);
    for (const SearchedPlan& plan : all.plans) {
      Json own = scenario;
      set_degrees(own, plan.degrees, batch);
      bool fits = true;
      try {
        (void)read_scenario(own, kFile, test::shipped_catalog(), {}, {.seeks_remedies = false});
      } catch (const NoResultError&) { fits = false; }
      CAPTURE(to_text(plan.degrees, all.gpus));
      CHECK((plan.outcome == PlanOutcome::kTooLarge) == !fits);
    }
  }
}

TEST_CASE("a search gives the same whatever runs at a time, and goes on where it was ended") {
  const Json scenario = small_training(1, 2);
  const auto outcome = [](const DegreeSearch& search) {
    std::vector<std::pair<Degrees, double>> plans;
    for (const SearchedPlan& plan : search.plans)
      if (plan.outcome == PlanOutcome::kSimulated) plans.emplace_back(plan.degrees, plan.step_s);
    return plans;
  };
  const DegreeSearch whole = search(scenario, 8, {.least = 8}, 2);
  CHECK(outcome(search(scenario, 8, {.least = 8}, 1)) == outcome(whole));

  ResultStore store = ResultStore::temporary();
  std::size_t simulations = 0;
  bool is_over = false;
  const SearchMeans means{.pool = 1,
                          .store = store,
                          .program = "test",
                          .limits = {.is_stopped = [&] { return is_over; }, .job_wall_s = {}},
                          .on_done = [&](std::size_t) { is_over = ++simulations == 40; }};
  const DegreeSearch part = search_degrees(scenario, kFile, 8, test::shipped_catalog(), {.least = 8}, means);
  CHECK(!part.has_time);
  CHECK(!part.is_complete);
  CHECK(part.simulated <= whole.simulated);
  const std::size_t before = simulations;
  const DegreeSearch rest = search_degrees(
      scenario, kFile, 8, test::shipped_catalog(), {.least = 8},
      {.pool = 1, .store = store, .program = "test", .limits = {}, .on_done = [&](std::size_t) { ++simulations; }});
  CHECK(outcome(rest) == outcome(whole));
  std::size_t fresh = 0;
  ResultStore other = ResultStore::temporary();
  (void)search_degrees(
      scenario, kFile, 8, test::shipped_catalog(), {.least = 8},
      {.pool = 1, .store = other, .program = "test", .limits = {}, .on_done = [&](std::size_t) { ++fresh; }});
  CHECK(simulations == fresh);
  CHECK(before < fresh);
}

TEST_CASE("why a plan is slower: the parts of its step that are longer, the largest first") {
  const auto summary = [](double step, double kernels, double bubble) {
    return Json{{"iteration_time_s", step},
                {"step_parts",
                 {{{"part", "worker_gpu"}, {"time_s", kernels}, {"what", "kernels on the GPUs"}},
                  {{"part", "bubble"}, {"time_s", bubble}, {"what", "waiting for other stages of the pipeline"}}}}};
  };
  CHECK(why_slower(summary(10, 9, 1), summary(12, 9.05, 2.95)) == "+1.95 s waiting for other stages of the pipeline");
}

}  // namespace rehearse::degree_search_test
