// rehearse provision as its user meets it.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

namespace {

using namespace test;

const std::string kFile = kRoot + "/scenarios/provision/resnet110.json";
const std::string kProvision = "provision " + kFile + " --deadline 2600s --target-loss 0.8 --quiet ";

}  // namespace

TEST_CASE("provision prints the answer and writes it, the same bytes whatever -j") {
  const TemporaryFolder one, two;
  const Outcome outcome = rehearse_with(kProvision + "-j 1 -o " + one.path.string());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.starts_with("2*p3.2xlarge;2*g3.8xlarge: 2.41 USD, "));
  CHECK(rehearse_with(kProvision + "-j 2 -o " + two.path.string()).out == outcome.out);
  for (const char* file : {"summary.json", "plans.csv", "report.html", "scenario.json"})
    CHECK(read_file(one.path / file, 4 * kMiB) == read_file(two.path / file, 4 * kMiB));
  const Json summary = load_json_file(one.path / "summary.json");
  CHECK(summary["answer"]["machines"] == Json{{"p3.2xlarge", 2}, {"g3.8xlarge", 2}});
  CHECK(load_csv_file(one.path / "plans.csv").row_count() == summary["plans"].size());
  CHECK(parse_json(rehearse_with(kProvision + "--json").out, "out") == summary);
  // The scenario that is written gives the time that was printed.
  const Json run =
      parse_json(rehearse_with("simulate " + (one.path / "scenario.json").string() + " --json").out, "run");
  CHECK(run["training_time_s"] == summary["answer"]["time_s"]["p50"]);
}

TEST_CASE("machines that may be revoked: percentiles, the same bytes whatever -j") {
  const TemporaryFolder one, two;
  const std::string arguments = "provision " + kRoot +
                                "/scenarios/provision/resnet110-spot.json --deadline 3000s --target-loss 0.8 --quiet "
                                "--runs 30 --quota g4dn.4xlarge=0 --quota g3.8xlarge-on-demand=0 ";
  const Outcome outcome = rehearse_with(arguments + "-j 1 -o " + one.path.string());
  CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(outcome.out.find("cost p50 (p5 - p95), USD") != std::string::npos);
  CHECK(outcome.out.find("% of 30 simulations") != std::string::npos);
  CHECK(rehearse_with(arguments + "-j 2 -o " + two.path.string()).out == outcome.out);
  for (const char* file : {"summary.json", "plans.csv", "report.html", "scenario.json"})
    CHECK(read_file(one.path / file, 4 * kMiB) == read_file(two.path / file, 4 * kMiB));
  const Json summary = load_json_file(one.path / "summary.json");
  CHECK(summary["answer"]["probability"].get<double>() >= 0.95);
  const std::string report = read_file(one.path / "report.html", 4 * kMiB);
  CHECK(report.find("What being in time costs") != std::string::npos);
  // The scenario that is written gives the answer's runs.
  const Json runs = parse_json(
      rehearse_with("simulate " + (one.path / "scenario.json").string() + " --runs 30 --deadline 3000s --json --quiet")
          .out,
      "runs");
  CHECK(runs["deadline_probability"] == summary["answer"]["probability"]);
  CHECK(runs["time_s"] == summary["answer"]["time_s"]["p50"]);
  CHECK(runs["cost_usd"] == summary["answer"]["cost_usd"]["p50"]);
}

TEST_CASE("no plan in time: exit code 3, one line with the nearest misses") {
  const Outcome outcome = rehearse_with("provision " + kFile + " --deadline 600s --target-loss 0.8 --quiet");
  CHECK(outcome.exit_code == 3);
  CHECK(
      outcome.err.starts_with("rehearse: no plan of ours reaches a loss of 0.8 within 600s with a probability of 0.95; "
                              "nearest: 2*p3.2xlarge;5*g3.8xlarge;3*g3.16xlarge in "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
}

TEST_CASE("quotas, candidates, planners and a run under way") {
  const auto answer = [&](const std::string& options) {
    const Outcome outcome = rehearse_with(kProvision + options);
    CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
    return outcome.out.substr(0, outcome.out.find(':'));
  };
  CHECK(answer("--quota p3.2xlarge=4") == "3*p3.2xlarge");
  CHECK(answer("--planner spotdnn-released --candidate g3.8xlarge --candidate g3.16xlarge") ==
        "5*g3.8xlarge;3*g3.16xlarge");
  CHECK(answer("--planner exhaustive") == "2*p3.2xlarge;2*g3.8xlarge");
  CHECK(answer("--existing g3.16xlarge=3 --current-loss 0.9").ends_with("3*g3.16xlarge"));
}

TEST_CASE("mistakes on the command line") {
  check_refused("provision " + kFile + " --target-loss 0.8", 2, "--deadline is required");
  check_refused("provision " + kFile + " --deadline 2600 --target-loss 0.8", 2, "--deadline: expected a time");
  check_refused("provision " + kFile + " --deadline 0s --target-loss 0.8", 2, "--deadline: expected a time above 0s");
  check_refused("provision " + kFile + " --deadline 1h --target-loss 0.4", 2,
                "--target-loss: expected a loss above 0.5");
  check_refused(kProvision + "--quota g3.8xlarg=5", 2, "did you mean \"g3.8xlarge\"?");
  check_refused(kProvision + "--quota g3.8xlarge", 2, "--quota: expected an instance and 0 to 10000 machines");
  check_refused(kProvision + "--existing g3.8xlarge=6", 2,
                "expected a quota of at least the 6 existing machines; found 5");
  check_refused(kProvision + "--planner mine", 2, "--planner: unknown planner \"mine\"");
  check_refused(kProvision + "--price cheap", 2, "--price: unknown price source");
  check_refused(kProvision + "--candidate g3.9xlarge", 2, "unknown instance \"g3.9xlarge\"; known: ");
  check_refused("provision " + test::kScenario + " --deadline 1h --target-loss 1", 2,
                "/workload: expected \"convergence\"");
}

namespace {

const std::string kSearch =
    "provision --model resnet50 --samples 1M --instance p3.2xlarge --global-batch 128 --calibration kernels ";

}  // namespace

TEST_CASE("the best way to train is printed and written, the same whatever -j, and its scenario gives its time") {
  const TemporaryFolder one, two;
  const std::string arguments = kSearch + "--max-gpus 2 --quiet ";
  const Outcome outcome = rehearse_with(arguments + "-j 1 -o " + one.path.string());
  CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(outcome.out.starts_with("resnet50 on "));
  for (const char* text : {"=>", "because of", "plans: ", "rehearse simulate "})
    CHECK(outcome.out.find(text) != std::string::npos);
  (void)rehearse_with(arguments + "-j 2 -o " + two.path.string());
  for (const char* file : {"summary.json", "plans.csv", "plan.json"})
    CHECK(read_file(one.path / file, kMiB) == read_file(two.path / file, kMiB));
  const Json summary = load_json_file(one.path / "summary.json");
  const Json run =
      parse_json(rehearse_with("simulate " + (one.path / "plan.json").string() + " --json --quiet").out, "run");
  CHECK(run["training_time_s"] == summary["answer"]["time_s"]);
  CHECK(run["training_cost_usd"] == summary["answer"]["cost_usd"]);
  CHECK(run["training_time_s_low"].get<double>() ==
        doctest::Approx(summary["answer"]["time_s_low"].get<double>()).epsilon(1e-6));
  CHECK(run["training_time_s_high"].get<double>() ==
        doctest::Approx(summary["answer"]["time_s_high"].get<double>()).epsilon(1e-6));
  const std::string page = read_file(one.path / "report.html", 10 * kMiB);
  for (const char* text : {"What shorter training costs", "Why not otherwise", "1 million samples"})
    CHECK_MESSAGE(page.find(text) != std::string::npos, text);
  // A second call takes what the first has kept.
  CHECK(rehearse_with(arguments + "--json -o " + one.path.string()).out == read_file(one.path / "summary.json", kMiB));
}

TEST_CASE("a goal that nothing meets is told with what would meet it") {
  const Outcome late = rehearse_with(kSearch + "--gpus 2 --deadline 5min --quiet");
  CHECK(late.exit_code == 3);
  CHECK_MESSAGE(late.err.starts_with(
                    "rehearse: nothing is done within 300s with a probability of 0.95: the fastest, 2 x p3.2xlarge (2 "
                    "V100), takes "),
                late.err);
  CHECK(late.err.find("; --deadline ") != std::string::npos);
  const Outcome poor = rehearse_with(kSearch + "--gpus 2 --budget 1USD --quiet");
  CHECK(poor.exit_code == 3);
  CHECK_MESSAGE(poor.err.starts_with("rehearse: nothing costs at most 1 USD: the cheapest, "), poor.err);
}

TEST_CASE("spot machines by a pool: later and dearer than ones that are never taken away, and less likely in time") {
  const std::string asked =
      "provision --model resnet50 --samples 20M --instance p3.2xlarge=4,p3.16xlarge=1 --market spot --global-batch 128 "
      "--calibration kernels --deadline 3h --confidence 50% --runs 40 --json --quiet ";
  const Json safe = parse_json(rehearse_with(asked).out, "safe"),
             risky = parse_json(rehearse_with(asked + "--spot-pool bamboo/p3").out, "risky");
  REQUIRE(safe["candidates"].size() == 2);
  REQUIRE(risky["candidates"].size() == 2);
  for (const Json& with : risky["candidates"])
    for (const Json& without : safe["candidates"]) {
      if (with["machines"] != without["machines"] || !with.contains("risk")) continue;
      CHECK(with["time_s"].get<double>() > without["time_s"].get<double>());
      CHECK(with["probability"].get<double>() < without["probability"].get<double>());
      CHECK(with["risk"]["runs"] == 40);
    }
  const Outcome told = rehearse_with(
      "provision --model resnet50 --samples 20M --instance p3.2xlarge=1 --market spot --calibration kernels");
  CHECK(told.err.find("taken never to be revoked: --spot-pool says when they are, such as ") != std::string::npos);
}

TEST_CASE("mistakes of who searches for the best way to train") {
  check_refused("provision", 2, "SCENARIO is required, or --model with --gpus");
  check_refused("provision " + kFile + " --deadline 1h", 2, "--target-loss is required");
  check_refused("provision --model resnet50", 2, "expected one of --tokens, --samples and --epochs");
  check_refused(kSearch + "--gpus 2 --instance p3.8xlarge=2", 2, "--gpus: expected none beside numbers of machines");
  check_refused("provision --model resnet50 --samples 1M --instance p3.8xlarge=0", 2,
                "--instance: expected a name, or");
  check_refused("provision --model resnet50 --samples 1M --instance p3.8xlarge=x", 2,
                "--instance: expected an instance");
  check_refused(kSearch + "--gpus 2 --deadline 1h --confidence 95", 2, "such as 95%; found \"95\": 95%?");
  check_refused(kSearch + "--gpus 2 --deadline 1h --confidence 101%", 2, "--confidence: expected a share from 0 to 1");
  check_refused(kSearch + "--gpus 2 --spot-pool bamboo/p3", 2, "--spot-pool: expected machines on the spot market");
  check_refused(kSearch + "--gpus 2 --market spot --spot-pool bamboo/p4", 2, "--spot-pool: unknown spot pool");
  check_refused("provision --model resnet5 --samples 1M --gpus 8", 2, "unknown model \"resnet5\"");
  check_refused(kSearch + "--gpus 2 --epochs 3", 2, "expected one of --tokens, --samples and --epochs");
  check_refused("provision --model resnet50 --instance p3.2xlarge --gpus 2", 2,
                "expected one of --tokens, --samples and --epochs");
  check_refused("provision --model resnet50 --tokens 1M --instance p3.2xlarge --gpus 2", 2,
                "--tokens: expected --samples of model \"resnet50\"");
  check_refused("provision --model resnet50 --epochs 3 --instance p3.2xlarge --gpus 2", 2,
                "--epochs: expected the size of the data set");
  check_refused("provision --model resnet50 --samples 1Q --instance p3.2xlarge --gpus 2", 2,
                "--samples: expected a number from 1 to 1e15");
  check_refused(kSearch + "--gpus 50000", 2,
                "--gpus: expected those of 1 to 20000 machines, a multiple of 1; found 50000");
  check_refused(kSearch + "--gpus 3", 2, "steps of 128 samples cannot be divided among 3 GPUs");
  check_refused(kSearch + "--gpus 2 --budget 100", 2, "--budget: expected an amount with its currency");
  check_refused(kSearch + "--gpus 2 --market cheap", 2, "--market: unknown market \"cheap\"");
  check_refused(kSearch + "--gpus 2 --max-gpus 4", 2, "--max-gpus: expected none beside --gpus");
  check_refused(kSearch + "--gpus 2 --target-loss 1", 2, "--target-loss: expected none beside");
  check_refused(kSearch + "--gpus 2 --planner cm-dare+", 2, "--planner: expected \"ours\" or \"exhaustive\"");
  check_refused("provision " + kRoot + "/scenarios/cm-dare-heterogeneous.json --samples 1M --gpus 2", 2,
                "expected one group of workers");
  check_refused(kSearch + "--gpus 2 --strategy ring", 2, "--strategy: unknown strategy \"ring\"");
  check_refused(kSearch + "--gpus 2 --server m5.xlarge", 2, "--server: expected servers, as by --strategy ");
  check_refused(kSearch + "--gpus 2 --strategy asynchronous_servers --server m5", 2, "--server: unknown instance");
  check_refused("provision --model resnet50 --samples 1M --instance m5.xlarge --gpus 2", 2,
                "--instance: expected machines with GPUs; found \"m5.xlarge\"");
}

TEST_CASE("servers and their number are searched by samples, and steps are as long as the scenario's") {
  const Outcome found =
      rehearse_with("provision " + kRoot +
                    "/scenarios/cm-dare.json --samples 1M --max-gpus 2 --instance p2.xlarge,gce-custom-4-k80 "
                    "--strategy asynchronous_servers,all_reduce --json");
  REQUIRE(found.exit_code == 0);
  CHECK(found.err.find("plans are compared by the samples that they train on") != std::string::npos);
  std::set<std::string> machines;
  const Json summary = parse_json(found.out, "summary");
  for (const Json& plan : summary["candidates"]) {
    machines.insert(plan["machines"].get<std::string>());
    if (!plan.contains("degrees") || plan["degrees"]["accumulated"] != 1) continue;
    CHECK(plan["degrees"]["microbatch"] == 128);  // as in the scenario
    CHECK(plan["plan"].get<std::string>().starts_with("asynchronous parameter servers, "));
  }
  CHECK(machines.contains("2 x p2.xlarge (2 K80) and 1 x m5.xlarge as server"));
  CHECK(machines.contains("1 x gce-custom-4-k80 (1 K80)"));
}

TEST_CASE("steps that nobody states can be divided among all GPUs") {
  const std::string six = "provision --model resnet50 --samples 1M --calibration kernels --instance g5.12xlarge=6 ";
  const Outcome found = rehearse_with(six);
  CHECK(found.exit_code == 0);
  CHECK(found.err.find("steps are taken to have 768 samples: --global-batch says otherwise") != std::string::npos);
  check_refused(six + "--global-batch 1024", 2, "steps of 1024 samples cannot be divided among 24 GPUs");
}

TEST_CASE("a model on machines in place of a scenario") {
  const std::string model = "--model resnet50 --instance p3.16xlarge ";
  const Outcome run = rehearse_with("simulate " + model + "--batch 64 --calibration kernels");
  CHECK(run.exit_code == 2);  // what a scenario states is set by --set
  const Outcome simulated = rehearse_with("simulate " + model + "--batch 64 --set calibration=kernels --json");
  REQUIRE(simulated.exit_code == 0);
  CHECK(parse_json(simulated.out, "summary")["samples_per_s"].get<double>() > 1200);
  const Outcome why =
      rehearse_with("diagnose " + model + "--batch 64 --set calibration=kernels --measured-samples-per-s 1200");
  CHECK(why.exit_code == 0);
  CHECK(why.out.find("slower than simulated") != std::string::npos);
  check_refused("simulate", 2, "expected a scenario, or --model, --instance and --batch");
  check_refused("simulate " + model, 2, "--model: expected --batch beside it");
  check_refused("simulate --model resnet50 --batch 64", 2, "--model: expected --instance beside it");
  check_refused("simulate --batch 64", 2, "--batch: expected --model beside it");
  check_refused("simulate --model resnet50 --instance p3.16xlarge=0 --batch 64", 2, "--instance: expected 1 machine");
  check_refused("simulate " + kFile + " " + model + "--batch 64", 2, "--model: expected no scenario beside it");
}

}  // namespace rehearse
