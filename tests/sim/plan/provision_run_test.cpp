// From a scenario to the cheapest plan that is in time: lone workers, simulated plans, ranking.

#include "sim/plan/provision_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

const std::string kFile = source_folder() + "/scenarios/provision/resnet110.json";

ProvisionRequest request_for(double loss, double deadline, const std::vector<std::string>& overrides = {}) {
  ProvisionRequest request = load_provision_request(kFile, overrides);
  request.loss = loss;
  request.deadline = Seconds{deadline};
  return request;
}

ProvisionCase prepared(const ProvisionRequest& request) {
  return prepare_provision(request, test::shipped_catalog(), {.pool = 2});
}

template <class Error>
std::string problem_of(const ProvisionRequest& request) {
  try {
    (void)prepared(request);
  } catch (const Error& error) {
    const std::string message = error.what();
    const auto place = message.find(": /");
    return place == std::string::npos ? message : message.substr(place + 2);
  }
  return {};
}

/// "2*p3.2xlarge;4*g3.8xlarge" as counts of the candidates.
std::vector<int> counts_of(const ProvisionProblem& problem, const std::string& text) {
  std::vector<int> counts(problem.offers.size());
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(';', begin), text.size()), star = text.find('*', begin);
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (problem.offers[i].name == text.substr(star + 1, end - star - 1))
        counts[i] = std::stoi(text.substr(begin, star - begin));
    begin = end + 1;
  }
  return counts;
}

/// Says of each plan what `risk` says, without simulating.
PlanEvaluator evaluator(const std::function<PlanRisk(const std::string& plan)>& risk) {
  return [risk](const std::vector<SharedJson>& scenarios, const std::vector<Seconds>&) {
    std::vector<PlanRisk> risks;
    for (const SharedJson& scenario : scenarios) risks.push_back(risk(scenario->at("name").get<std::string>()));
    return risks;
  };
}

PlanRisk risk_of(double probability, double time, double cost) {
  return {.probability = probability,
          .time_s = {time, time, time},
          .cost_usd = {cost, cost, cost},
          .runs = 100,
          .error = {}};
}

const std::string kSpotFile = source_folder() + "/scenarios/provision/resnet110-spot.json";

/// Machines on the spot market with exponential lifetimes.
ProvisionRequest spot_request(double deadline, const std::string& mean_lifetime) {
  ProvisionRequest request = load_provision_request(kSpotFile);
  request.loss = 0.8;
  request.deadline = Seconds{deadline};
  for (const char* name : {"g4dn.4xlarge", "g3.8xlarge-on-demand"}) find_candidate(request, name, "test").quota = 0;
  for (ProvisionCandidate& candidate : request.candidates) {
    Json group = *candidate.group;
    if (group["market"] != "spot") continue;
    group["spot_pool"] = {{"source", "test"},
                          {"lifetime", {{"law", {{"law", "exponential"}, {"mean", mean_lifetime}}}}},
                          {"wait", {{"law", "exponential"}, {"mean", "300s"}}}};
    candidate.group = share(group);
  }
  return request;
}

std::string answer_of(const ProvisionRequest& request) {
  const ProvisionCase provision_case = prepared(request);
  const Provision result = provision(
      provision_case, {}, evaluate_by_monte_carlo(test::shipped_catalog(), provision_case.file_name, {.pool = 2}, 40));
  return result.answer ? plan_text(provision_case.problem, result.plans[*result.answer].plan.counts) : "none";
}

}  // namespace

TEST_CASE("a lone worker of each candidate has its published speed, the closed form what the scenario says") {
  ProvisionRequest request = request_for(0.8, 2600);
  request.required_bandwidth.reset();
  request.server_bandwidth.reset();
  request.contention.reset();
  const ProvisionCase provision = prepared(request);
  const ProvisionProblem& problem = provision.problem;
  const CsvTable profile = load_csv_file(source_folder() + "/calibration/data/spotdnn/resnet110_profile.csv");
  REQUIRE(problem.offers.size() == profile.row_count());
  for (const CsvRow row : profile.rows()) {
    const auto offer = std::find_if(problem.offers.begin(), problem.offers.end(), [&](const MachineOffer& each) {
      return each.name == row.text("likely_real_instance");
    });
    REQUIRE(offer != problem.offers.end());
    CHECK(offer->worker.batch / offer->worker.step_alone.value() ==
          doctest::Approx(row.number("profiled_speed_samples_per_s")).epsilon(1e-4));
    CHECK(offer->worker.gpus == row.integer("gpus"));
    CHECK(offer->quota == row.integer("quota"));
  }
  CHECK(problem.workload.parameters == Bytes{11'500'000});
  CHECK(problem.workload.required_bandwidth == BytesPerSecond{142e6});
  CHECK(problem.server.bandwidth.value() == doctest::Approx(1.2e9).epsilon(1e-6));
  // Contention comes from simulated clusters, so that others are met.
  const MachinePlan plan = evaluate_plan(problem, {2, 3, 5, 4, 0});
  const PlanRisk risk = evaluate_without_revocations(test::shipped_catalog(), provision.file_name, {.pool = 1})(
      {share(scenario_of(provision, plan))}, {Seconds{1e5}})[0];
  REQUIRE_MESSAGE(risk.error.empty(), risk.error);
  CHECK(risk.time_s.p50 == doctest::Approx(plan.time.value()).epsilon(0.01));
  ProvisionProblem always_shared = problem;
  always_shared.workload.contention = {};
  CHECK(evaluate_plan(always_shared, {2, 3, 5, 4, 0}).time.value() > 1.05 * plan.time.value());
  CHECK(problem.objective.fixed_usd_per_hour == 0.192);  // m5.xlarge
}

TEST_CASE("the plans that spotDNN's authors ran take within 4 % of their times, and cost plan x price x time") {
  const std::map<std::string, double> prices{
      {"p3.2xlarge", 0.918}, {"g4dn.4xlarge", 0.3612}, {"g3.8xlarge", 0.684}, {"g3.16xlarge", 1.368}};
  const CsvTable table = load_csv_file(source_folder() + "/calibration/data/spotdnn/resnet110_plans.csv");
  int rows = 0;
  for (const CsvRow row : table.rows()) {
    const std::string target{row.text("target")};
    if (!target.starts_with("loss ") || row.text("repeats") == "yes") continue;
    CAPTURE(row.line());
    const ProvisionCase provision = prepared(request_for(std::stod(target.substr(5)), 1e5));
    const MachinePlan plan =
        evaluate_plan(provision.problem, counts_of(provision.problem, std::string{row.text("plan")}));
    CHECK(plan_text(provision.problem, plan.counts).size() == row.text("plan").size());
    const PlanRisk risk = evaluate_without_revocations(test::shipped_catalog(), provision.file_name, {.pool = 1})(
        {share(scenario_of(provision, plan))}, {Seconds{1e5}})[0];
    REQUIRE_MESSAGE(risk.error.empty(), risk.error);
    CHECK(risk.time_s.p50 == doctest::Approx(row.number("training_time_s")).epsilon(0.04));
    double usd = 0.192;  // the server's; the paper does not count it
    for (std::size_t i = 0; i < plan.counts.size(); ++i)
      if (plan.counts[i] > 0) usd += plan.counts[i] * prices.at(provision.problem.offers[i].name);
    CHECK(std::abs(risk.cost_usd.p50 - usd * risk.time_s.p50 / 3600) < 0.005);
    ++rows;
  }
  CHECK(rows == 6);
  // Table I: 5.33 USD for 2549.02 s
  CHECK(std::abs((5 * 0.684 + 3 * 1.368) * 2549.02 / 3600 - 5.33) < 0.005);
}

TEST_CASE("the paper's objectives give the paper's plans") {
  ProvisionRequest request = request_for(0.9, 1900);
  CHECK(spotdnn_plan(prepared(request).problem).plan->counts == std::vector<int>{2, 0, 2, 0, 0});  // figure 7
  request = request_for(0.8, 2600);  // table I, where no p3.2xlarge is offered
  for (const char* name : {"p3.2xlarge", "p2.8xlarge"}) find_candidate(request, name, "test").quota = 0;
  const ProvisionProblem problem = prepared(request).problem;
  CHECK(plan_text(problem, spotdnn_plan(problem).plan->counts) == "5*g3.8xlarge;3*g3.16xlarge");
  request = request_for(0.7, 3700);
  // figure 7: exhaustive search with the paper's model found it
  CHECK(plan_text(problem, {}).empty());
  CHECK(cheapest_plans(prepared(request).problem).plans.at(0).counts == std::vector<int>{2, 1, 3, 0, 0});
}

TEST_CASE("the closed form and the simulation agree within 4 %, and the answer is in time") {
  const ProvisionCase provision_case = prepared(request_for(0.8, 2600));
  const Provision result = provision(
      provision_case, {}, evaluate_without_revocations(test::shipped_catalog(), provision_case.file_name, {.pool = 2}));
  REQUIRE(result.answer);
  const ProposedPlan& answer = result.plans[*result.answer];
  CHECK(plan_text(provision_case.problem, answer.plan.counts) == "2*p3.2xlarge;2*g3.8xlarge");
  CHECK(answer.risk.time_s.p50 <= 2600);
  CHECK(answer.is_on_frontier);
  for (const ProposedPlan& plan : result.plans) {
    CAPTURE(plan_text(provision_case.problem, plan.plan.counts));
    REQUIRE(plan.risk.error.empty());
    CHECK(plan.risk.time_s.p50 == doctest::Approx(plan.plan.time.value()).epsilon(0.04));
    CHECK(plan.risk.probability == (plan.risk.time_s.p50 <= 2600 ? 1 : 0));
    const bool is_dearer = plan.risk.cost_usd.p50 >= answer.risk.cost_usd.p50;
    CHECK((is_dearer || plan.risk.probability == 0 || plan.exceeds_quota));
  }
}

TEST_CASE("the answer is the cheapest plan that is safe enough") {
  const ProvisionCase provision_case = prepared(request_for(0.8, 2600));
  const auto risk = evaluator([](const std::string& plan) {
    if (plan == "2*p3.2xlarge;2*g3.8xlarge") return risk_of(0.9, 2550, 2.4);
    if (plan == "2*p3.2xlarge;3*g3.8xlarge") return risk_of(0.96, 2450, 2.8);
    return risk_of(0.99, 2400, 3);
  });
  const auto answer = [&](double confidence) {
    const Provision result = provision(provision_case, {.confidence = confidence}, risk);
    return result.answer ? plan_text(provision_case.problem, result.plans[*result.answer].plan.counts) : "none";
  };
  CHECK(answer(0.9) == "2*p3.2xlarge;2*g3.8xlarge");
  CHECK(answer(0.95) == "2*p3.2xlarge;3*g3.8xlarge");
  CHECK(answer(0.999) == "none");
  const Provision none = provision(provision_case, {.confidence = 0.999}, risk);
  REQUIRE(none.misses.size() == 3);
  CHECK(none.plans[none.misses[0]].risk.probability == 0.99);
  // Another planner answers with its own plan or not at all.
  CHECK_FALSE(provision(provision_case, {.planner = Planner::kSpotdnnPaper}, risk).answer);
  CHECK(provision(provision_case, {.planner = Planner::kSpotdnnPaper, .confidence = 0.9}, risk).answer);
}

TEST_CASE("on the frontier is what no other plan beats in cost, time and risk") {
  const ProvisionCase provision_case = prepared(request_for(0.8, 2600));
  const Provision result = provision(provision_case, {}, evaluator([](const std::string& plan) {
                                       if (plan == "2*p3.2xlarge;2*g3.8xlarge") return risk_of(0.5, 2550, 2.4);
                                       if (plan == "2*p3.2xlarge;3*g3.8xlarge") return risk_of(0.96, 2450, 2.8);
                                       PlanRisk risk = risk_of(0.4, 2600, 2.5);
                                       if (plan == "1*p3.2xlarge") risk = {.error = "it did not end"};
                                       return risk;
                                     }));
  std::vector<std::string> frontier;
  for (const ProposedPlan& plan : result.plans)
    if (plan.is_on_frontier) frontier.push_back(plan_text(provision_case.problem, plan.plan.counts));
  CHECK(frontier == std::vector<std::string>{"2*p3.2xlarge;2*g3.8xlarge", "2*p3.2xlarge;3*g3.8xlarge"});
  CHECK(result.plans.back().risk.error == "it did not end");
}

TEST_CASE("a run under way keeps its machines and has less to do") {
  ProvisionRequest request = request_for(0.8, 810);
  request.loss_so_far = 0.9;
  find_candidate(request, "g3.16xlarge", "test").existing = 3;
  find_candidate(request, "g3.8xlarge", "test").quota = 0;
  const ProvisionCase provision_case = prepared(request);
  std::vector<Seconds> deadlines;
  const Provision result =
      provision(provision_case, {}, [&](const std::vector<SharedJson>& scenarios, const auto& given) {
        deadlines = given;
        for (const SharedJson& each : scenarios) {
          const Json& scenario = *each;
          CHECK(scenario["training"]["target"].contains("samples"));
        }
        return std::vector<PlanRisk>(scenarios.size(), risk_of(1, 700, 1));
      });
  for (const ProposedPlan& plan : result.plans) CHECK(plan.plan.counts[2] >= 3);
  REQUIRE(result.answer);
  // new machines join after 30 s, at the price of all machines
  const ProposedPlan& answer = result.plans[*result.answer];
  CHECK(answer.risk.time_s.p50 == 730);
  CHECK(answer.risk.cost_usd.p50 == doctest::Approx(1 + (answer.plan.usd_per_hour + 0.192) * 30 / 3600));
  CHECK(std::find(deadlines.begin(), deadlines.end(), Seconds{780}) != deadlines.end());
}

TEST_CASE("what the loss model was not fitted for is refused") {
  CHECK(problem_of<InputError>(request_for(0.5, 2600)) ==
        "--target-loss: expected a loss above 0.5, the floor of the loss model, and below 2.8936, where its training "
        "starts; found 0.5");
  CHECK(problem_of<InputError>(request_for(2.9, 2600)).ends_with("where its training starts; found 2.9"));
  ProvisionRequest request = request_for(0.8, 2600);
  request.candidates = {find_candidate(request, "p2.8xlarge", "test")};
  CHECK(problem_of<InputError>(request) ==
        "/workload/convergence/weighted_batch: no mix of the candidates has a weighted batch for which the loss model "
        "was fitted: expected 1024 to 2048 "
        "samples; found 8192 to 8192");
  request = request_for(0.8, 2600);
  request.loss_so_far = 0.7;
  CHECK(problem_of<InputError>(request) == "--current-loss: expected one above the target of 0.8; found 0.7");
  request.loss_so_far.reset();
  request.updates_so_far = 1e6;
  CHECK(problem_of<InputError>(request) ==
        "--updates-done: expected fewer than the 6116 that the smallest cluster takes to a loss of 0.8; found "
        "1e+06");
}

TEST_CASE("a scenario that provision cannot work on is refused, a candidate that does not fit left out") {
  CHECK(problem_of<InputError>(request_for(0.8, 2600, {"/training/strategy/synchronization=synchronous"})) ==
        "--set /training/strategy/synchronization: expected asynchronous parameter servers: the convergence model was "
        "fitted to their updates");
  ProvisionRequest request = request_for(0.8, 2600);
  Json scenario = *request.scenario;
  scenario["workload"]["model"] = "spotdnn/vgg19";
  request.scenario = share(scenario);
  CHECK(problem_of<InputError>(request).starts_with(
      "/workload: expected \"convergence\" in the workload, which rehearse calibrate fits to logs of its training; "
      "found "
      "none. That of model \"spotdnn/vgg19\" is missing: spotDNN publishes coefficients for ResNet-110 alone."));
  request = request_for(0.8, 2600);
  request.price = PriceSource::kSpot;
  request.candidates[0].usd_per_hour.reset();
  request.candidates[0].group =
      share(Json::parse(R"({"instance": {"name": "own", "vcpus": 8, "memory": "61GiB", "accelerator": "V100",
                                                    "accelerators": 1, "nic": "10Gbps", "source": "test"}})"));
  CHECK(problem_of<InputError>(request) ==
        std::string{"/candidates/0: the catalogs have no spot price of it: give \"usd_per_hour\" in a provision file, "
                    "or another price source"});
  request = request_for(0.8, 2600, {"/workload/model=bert_large"});
  for (ProvisionCandidate& candidate : request.candidates) candidate.quota = candidate.name == "p3.2xlarge" ? 1 : 0;
  CHECK(problem_of<NoResultError>(request).find("GPU memory exceeded: group \"p3.2xlarge\" needs") !=
        std::string::npos);
}

TEST_CASE("machines of a plan are replaced by their like, and a replay is of machines that no plan has") {
  ProvisionRequest request = load_provision_request(source_folder() + "/scenarios/spotdnn-revocation.json", {});
  request.loss = 0.8;
  request.deadline = Seconds{2600};
  CHECK(problem_of<InputError>(request) ==
        "/cluster/groups/1/spot_pool/replay: expected a law of lifetimes: plans have other numbers of machines than a "
        "replay");
  Json scenario = *request.scenario;
  for (Json& group : scenario["cluster"]["groups"])
    if (group.contains("replacement")) group["spot_pool"] = scenario["cluster"]["groups"].back()["spot_pool"];
  request.scenario = share(scenario);
  for (ProvisionCandidate& candidate : request.candidates) {
    Json group = *candidate.group;
    if (group.contains("replacement")) group["spot_pool"] = scenario["cluster"]["groups"].back()["spot_pool"];
    candidate.group = share(group);
  }
  CHECK(problem_of<InputError>(request).empty());
}

TEST_CASE("machines may hold several workers, and lie in several regions") {
  ProvisionRequest request = load_provision_request(source_folder() + "/scenarios/spotdnn.json");
  request.loss = 0.8;
  request.deadline = Seconds{2200};
  request.price = PriceSource::kOnDemand;
  request.candidates = {
      {.name = "four",
       .group =
           share(Json::parse(R"({"instance": "p3.8xlarge", "batch_per_worker": 1024, "workers_per_machine": 4})"))},
      {.name = "one",
       .group =
           share(Json::parse(R"({"instance": "p3.8xlarge", "batch_per_worker": 2048, "workers_per_machine": 1})"))},
      {.name = "far",
       .group = share(Json::parse(R"({"instance": "p3.2xlarge", "batch_per_worker": 1024, "region": "us-west-2"})"))}};
  CHECK(problem_of<InputError>(request).find("/cluster/groups") != std::string::npos);  // no link between the regions
  Json scenario = *request.scenario;
  for (const char* from : {"us-east-1", "us-west-2"})
    scenario["cluster"]["network"]["links"].push_back(
        {{"from", from}, {"to", "us-west-2"}, {"latency", "30ms"}, {"per_flow_rate", "20MBps"}, {"source", "test"}});
  request.scenario = share(scenario);
  const ProvisionCase provision_case = prepared(request);
  CHECK(provision_case.problem.offers[0].workers == 4);
  CHECK(provision_case.problem.offers[1].worker.gpus == 4);
  CHECK(provision_case.problem.offers[2].worker.step_alone > provision_case.problem.offers[0].worker.step_alone);
  const MachinePlan plan = evaluate_plan(provision_case.problem, {1, 1, 0});
  CHECK(plan.workers == 5);
  const PlanRisk risk = evaluate_without_revocations(test::shipped_catalog(), provision_case.file_name, {.pool = 1})(
      {share(scenario_of(provision_case, plan))}, {Seconds{2200}})[0];
  REQUIRE_MESSAGE(risk.error.empty(), risk.error);
  CHECK(risk.time_s.p50 == doctest::Approx(plan.time.value()).epsilon(0.04));
}

TEST_CASE("prices come from where they are asked for") {
  ProvisionRequest request = request_for(0.8, 2600);
  for (ProvisionCandidate& candidate : request.candidates) candidate.usd_per_hour.reset();
  CHECK(prepared(request).problem.offers[0].usd_per_hour == 1.25);
  request.price = PriceSource::kOnDemand;
  CHECK(prepared(request).problem.offers[0].usd_per_hour == 3.06);
  request.candidates[0].usd_per_hour = 2;
  request.server_usd_per_hour = 0.5;
  const ProvisionCase provision = prepared(request);
  CHECK(provision.problem.objective.fixed_usd_per_hour == 0.5);
  CHECK(provision.problem.offers[0].usd_per_hour == 2);
  const Json scenario = scenario_of(provision, evaluate_plan(provision.problem, {1, 0, 0, 0, 0}));
  CHECK(scenario["cluster"]["groups"].back()["instance"]["usd_per_hour_on_demand"] == 2);
  CHECK(scenario["cluster"]["groups"].back()["market"] == "on-demand");
  CHECK(scenario["cluster"]["groups"][0]["instance"]["usd_per_hour_on_demand"] == 0.5);
}

TEST_CASE("prices that a file states for one market are none of another") {
  ProvisionRequest request = request_for(0.8, 2600);
  REQUIRE(request.candidates[0].usd_per_hour == 0.918);
  take_prices_of(request, PriceSource::kSpot);  // as the file says
  CHECK(prepared(request).problem.offers[0].usd_per_hour == 0.918);
  take_prices_of(request, PriceSource::kOnDemand);
  const ProvisionCase provision = prepared(request);
  CHECK(provision.problem.offers[0].usd_per_hour == 3.06);
  CHECK(provision.on_demand_usd_per_hour[0] == 3.06);
  // A candidate whose group states a market keeps its price if that is asked for.
  request.price = PriceSource::kCatalog;
  Json group = *request.candidates[1].group;
  group["market"] = "spot";
  request.candidates[1].group = share(group);
  for (std::size_t i : {0, 1}) request.candidates[i].usd_per_hour = 2;
  take_prices_of(request, PriceSource::kSpot);
  CHECK_FALSE(request.candidates[0].usd_per_hour);
  CHECK(request.candidates[1].usd_per_hour == 2);
}

TEST_CASE("where a candidate's machines come from reaches the scenario of its plans") {
  ProvisionRequest request = load_provision_request(kSpotFile);
  request.loss = 0.8;
  request.deadline = Seconds{3000};
  const ProvisionCase provision_case = prepared(request);
  CHECK(provision_case.is_revocable == std::vector<bool>{true, true, true, false, false});
  const Json groups =
      scenario_of(provision_case, evaluate_plan(provision_case.problem, {1, 0, 2, 1, 0})).at("cluster").at("groups");
  REQUIRE(groups.size() == 4);
  CHECK(groups[1]["spot_pool"]["notice"] == "120s");
  CHECK(groups[1]["zone"] == "us-east-1c");
  CHECK(groups[2]["replacement"] == Json{{"delay", "30s"}});
  CHECK(groups[3]["market"] == "on-demand");
  CHECK_FALSE(groups[3].contains("spot_pool"));
  // Machines that all are rented on demand are not revoked.
  request.price = PriceSource::kOnDemand;
  for (ProvisionCandidate& candidate : request.candidates) candidate.usd_per_hour.reset();
  CHECK(prepared(request).is_revocable == std::vector<bool>(5, false));
}

TEST_CASE("the sooner machines are revoked, the more of them are rented, or others") {
  const std::string without = answer_of([] {
    ProvisionRequest request = spot_request(2600, "1h");
    for (ProvisionCandidate& candidate : request.candidates) {
      Json group = *candidate.group;
      group.erase("spot_pool"), group.erase("replacement");
      candidate.group = share(group);
    }
    return request;
  }());
  CHECK(without == "2*p3.2xlarge;2*g3.8xlarge");
  CHECK(answer_of(spot_request(2600, "1e9s")) == without);
  const ProvisionCase provision_case = prepared(spot_request(2600, "1h"));
  const auto cost = [&](const std::string& plan) {
    return evaluate_plan(provision_case.problem, counts_of(provision_case.problem, plan)).usd_per_hour;
  };
  const std::string some = answer_of(spot_request(2600, "2h")), many = answer_of(spot_request(2600, "5min"));
  CHECK_MESSAGE(cost(some) > cost(without), some);
  CHECK_MESSAGE(many.find("on-demand") != std::string::npos, many);
  CHECK(cost(many) > cost(some));
}

TEST_CASE("the later the deadline, the more likely a plan is in time; its cost is the same") {
  const ProvisionCase provision_case = prepared(spot_request(2600, "1h"));
  const SharedJson scenario = share(scenario_of(provision_case, evaluate_plan(provision_case.problem, {2, 2, 0})));
  const Catalog& catalog = test::shipped_catalog();
  const PlanEvaluator evaluate = evaluate_by_monte_carlo(catalog, provision_case.file_name, {.pool = 2}, 100);
  const std::vector<PlanRisk> risks =
      evaluate(std::vector<SharedJson>(4, scenario), {Seconds{2500}, Seconds{2600}, Seconds{2800}, Seconds{1e5}});
  CHECK(risks.front().probability == 0);  // not even without revocations
  CHECK(risks[1].probability > 0);
  CHECK(risks[2].probability > risks[1].probability);
  CHECK(risks[2].probability < 1);
  CHECK(risks.back().probability == 1);
  for (const PlanRisk& risk : risks) {
    CHECK(risk.runs == 100);
    CHECK(risk.cost_usd.p50 == risks[0].cost_usd.p50);
    CHECK(risk.time_s.p5 < risk.time_s.p50);
    CHECK(risk.time_s.p50 < risk.time_s.p95);
  }
}

}  // namespace rehearse
