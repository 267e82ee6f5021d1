// rehearse queue as its user meets it, and its policies against published figures.

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

namespace {

using namespace test;

const std::string kQueues = kRoot + "/scenarios/queue/";

std::map<std::string, double> mean_completions(const std::string& arguments) {
  const Outcome outcome = rehearse_with("queue " + arguments + " --json --quiet");
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  std::map<std::string, double> means;
  const Json summary = parse_json(outcome.out, "out");
  for (const Json& policy : summary["policies"])
    means[policy["policy"].get<std::string>()] = policy["mean_completion_time_s"].get<double>();
  return means;
}

const std::string kSmall =
    R"({"format":1,"cluster":{"groups":[{"name":"g","gpu":"V100","machines":2,"gpus_per_machine":4}]},
        "jobs":[{"name":"a","gpus":4,"duration":"1h","count":6,"every":"10min"}],"policy":["fifo","srtf"]})";

}  // namespace

TEST_CASE("Gavel's policies on its trace of a physical cluster are within 10 % of what Gavel's authors simulated") {
  // Narayanan et al., OSDI 2020, table 3, simulation: 5.4 h without and 3.7 h with knowledge of speeds
  const auto means = mean_completions(kQueues + "gavel-physical.json");
  CHECK(means.at("las") / 3600 == doctest::Approx(5.4).epsilon(0.10));
  CHECK(means.at("gavel_las") / 3600 == doctest::Approx(3.7).epsilon(0.10));
}

TEST_CASE("policies on Pollux's workloads are within 10 % of what Pollux's authors simulated") {
  struct Published {
    std::string queue, policy;
    int workload;
    double mean_s;
  };
  // simulator/results-jobload/{tiresias,pollux}-1.0/summary.json; under tiresias, workload 1 is where the sizes of
  // ImageNet jobs come from
  const std::vector<Published> all{{"pollux-tiresias.json", "tiresias", 1, 2473.65},
                                   {"pollux-tiresias.json", "tiresias", 6, 3469.69},
                                   {"pollux.json", "pollux", 1, 2088.77},
                                   {"pollux.json", "pollux", 6, 2446.13}};
  for (const Published& published : all) {
    const std::string workload = "workload-" + std::to_string(published.workload) + ".csv";
    CAPTURE(published.policy);
    CAPTURE(workload);
    const auto means =
        mean_completions(kQueues + published.queue + " --policy " + published.policy + " --set /trace/file=" + kRoot +
                         "/calibration/data/pollux-workloads/" + workload);
    CHECK(means.at(published.policy) == doctest::Approx(published.mean_s).epsilon(0.10));
  }
}

TEST_CASE("an elastic job with a scenario grows as far as larger batches are worth it") {
  const TemporaryFolder folder;
  Json scenario = load_json_file(kRoot + "/scenarios/resnet50-ec2.json");
  scenario["training"]["strategy"]["algorithm"] = "ring";
  folder.write("ring.json", scenario.dump());
  const auto sizes_with = [&](const std::string& noise_scale) {
    const std::string file =
        folder
            .write("q.json", R"({"format":1,"cluster":{"groups":[{"name":"g","instance":"p3.16xlarge","machines":2}]},
              "jobs":[{"name":"a","gpus":8,"scenario":"ring.json","steps":20000,"max_gpus":16,"noise_scale":)" +
                                 noise_scale + R"(}],"policy":"pollux","restart":"10s"})")
            .string();
    const Outcome outcome = rehearse_with("queue " + file + " --quiet -o " + (folder.path / noise_scale).string());
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    std::vector<int> sizes;
    for (const CsvRow& row : load_csv_file(folder.path / noise_scale / "spans.csv").rows())
      sizes.push_back(static_cast<int>(row.integer("gpus")));
    return sizes;
  };
  CHECK(sizes_with("1e15") == std::vector<int>{1, 2, 4, 8, 16});
  CHECK(sizes_with("1") == std::vector<int>{1});  // a larger batch is worth nothing
}

TEST_CASE("a job that has all machines of a queue draws what its scenario says") {
  const TemporaryFolder folder;
  const std::string scenario = kRoot + "/scenarios/resnet50-ec2.json";
  const std::string file =
      folder
          .write("q.json", R"({"format":1,"cluster":{"groups":[{"name":"p3","instance":"p3.16xlarge","machines":4}],
                              "electricity":{"usd_per_kwh":0.5,"gco2_per_kwh":100,"pue":1.25}},
                              "jobs":[{"name":"a","gpus":32,"steps":20000,"scenario":")" +
                               scenario + R"("}],"policy":"fifo"})")
          .string();
  const Outcome queued = rehearse_with("queue " + file + " --json --quiet");
  REQUIRE_MESSAGE(queued.exit_code == 0, queued.err);
  const Json policy = parse_json(queued.out, "out")["policies"][0];
  const Outcome alone = rehearse_with("simulate " + scenario + " --json --quiet");
  REQUIRE_MESSAGE(alone.exit_code == 0, alone.err);
  const double kwh = 4 * parse_json(alone.out, "out")["node_power_w"].get<double>() *
                     policy["makespan_s"].get<double>() * 1.25 / 3.6e6;
  const Json& energy = policy["energy"];
  CHECK(energy["kwh"].get<double>() == doctest::Approx(kwh).epsilon(1e-6));
  CHECK(energy["jobs_kwh"].get<double>() == doctest::Approx(kwh).epsilon(1e-6));
  CHECK(energy["idle_kwh"].get<double>() == doctest::Approx(0));
  CHECK(energy["usd"].get<double>() == doctest::Approx(kwh / 2).epsilon(1e-6));
  CHECK(energy["co2_kg"].get<double>() == doctest::Approx(kwh / 10).epsilon(1e-6));
}

TEST_CASE("energy that nobody knows is null, and told to those who ask for it") {
  const TemporaryFolder folder;
  const std::string file = folder.write("q.json", kSmall).string();
  const Outcome silent = rehearse_with("queue " + file + " --json");
  CHECK(parse_json(silent.out, "out")["policies"][0]["energy"].is_null());
  CHECK(silent.err.find("energy") == std::string::npos);
  const Outcome asked = rehearse_with("queue " + file + " --set /jobs/0/gpu_power=100W");
  CHECK(asked.err.find("the energy is not known: nobody says what machines of group \"g\" draw") != std::string::npos);
  const Outcome wrong = rehearse_with("queue " + file + " --set /jobs/0/gpu_power=100");
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err.find("/jobs/0/gpu_power") != std::string::npos);
}

TEST_CASE(
    "a queue writes tables of jobs, spans and load, a timeline and a page, the same bytes when it goes on from them") {
  const TemporaryFolder folder;
  const std::string file = folder.write("q.json", kSmall).string();
  const std::string out = (folder.path / "out").string();
  const Outcome first = rehearse_with("queue " + file + " -o " + out);
  CHECK_MESSAGE(first.exit_code == 0, first.err);
  std::map<std::string, std::string> before;
  for (const char* name : {"summary.json", "jobs.csv", "spans.csv", "load.csv", "timeline.json.gz", "report.html"})
    before[name] = read_file(folder.path / "out" / name, 4 * kMiB);
  CHECK(load_csv_file(folder.path / "out/jobs.csv").row_count() == 12);
  const Json summary = load_json_file(folder.path / "out/summary.json");
  CHECK(summary["policies"][0]["gpu_hours"] == 24);
  const Outcome again = rehearse_with("queue " + file + " -o " + out);
  CHECK(again.out == first.out);
  for (const auto& [name, content] : before) CHECK(read_file(folder.path / "out" / name, 4 * kMiB) == content);
  // What has been kept of one policy is there when another is asked for.
  const Outcome other = rehearse_with("queue " + file + " --policy tiresias -o " + out);
  CHECK(other.exit_code == 0);
  CHECK(load_csv_file(folder.path / "out/jobs.csv").row_count() == 6);
}

TEST_CASE("jobs whose scenario is simulated are as fast as simulate says") {
  const TemporaryFolder folder;
  const std::string scenario = kRoot + "/scenarios/resnet50-ec2.json";
  const std::string file =
      folder
          .write("q.json", R"({"format":1,"cluster":{"groups":[{"name":"g","instance":"p3.16xlarge","machines":4}]},
                 "jobs":[{"name":"a","gpus":32,"scenario":")" +
                               scenario + R"(","steps":1000}],"policy":"fifo"})")
          .string();
  const Outcome alone = rehearse_with("simulate " + scenario + " --json --quiet");
  const double speed = parse_json(alone.out, "run")["steps_per_s"].get<double>();
  CHECK(mean_completions(file).at("fifo") == doctest::Approx(1000 / speed).epsilon(1e-6));
}

TEST_CASE("a job whose strategy refuses a placement is as fast there as packed, and that is told") {
  const TemporaryFolder folder;
  const auto queue_of = [&](int gpus) {
    return folder
        .write("q.json",
               R"({"format":1,"cluster":{"groups":[{"name":"g","instance":"p3.16xlarge","machines":2}]},"jobs":[
                   {"name":"five","gpus":5,"duration":"1d"},{"name":"six","gpus":6,"duration":"1d"},
                   {"name":"rings","gpus":)" +
                   std::to_string(gpus) + R"(,"scenario":")" + kRoot +
                   R"(/scenarios/resnet50-ec2.json","steps":1000}],"policy":"fifo"})")
        .string();
  };
  // 3 and 2 GPUs are left, and a ring between machines has one GPU of each.
  const Outcome spread = rehearse_with("queue " + queue_of(5) + " --json");
  REQUIRE(spread.exit_code == 0);
  CHECK(spread.out.find("resnet50-ec2.json does not run on 3 GPUs of one machine and 2 GPUs of one machine of group "
                        "\\\"g\\\", and is taken to be as fast there as packed: ") != std::string::npos);
  CHECK(spread.out.find("expected the same number of GPUs on every machine") != std::string::npos);

  const Outcome nowhere = rehearse_with("queue " + queue_of(10) + " --json");
  CHECK(nowhere.exit_code == 3);
  CHECK(nowhere.err.find("does not run on 8 GPUs of one machine and 2 GPUs of one machine of group \"g\": ") !=
        std::string::npos);
  CHECK(nowhere.err.find("expected the same number of GPUs on every machine") != std::string::npos);
  CHECK(std::count(nowhere.err.begin(), nowhere.err.end(), '\n') == 1);
}

TEST_CASE("simulated jobs that share a machine's NIC slow each other down by what they send") {
  const TemporaryFolder folder;
  Json scenario = load_json_file(kRoot + "/scenarios/resnet50-ec2.json");
  scenario["training"]["strategy"]["algorithm"] = "ring";
  folder.write("ring.json", scenario.dump());
  const auto run = [&](const std::string& instance, int jobs, const std::string& options) {
    const std::string file =
        folder
            .write("q.json", R"({"format":1,"cluster":{"groups":[{"name":"g","instance":")" + instance +
                                 R"(","machines":3}]},"jobs":[{"name":"a","gpus":10,"scenario":"ring.json",
                                   "steps":1000,"count":)" +
                                 std::to_string(jobs) + R"(}],"policy":"fifo"})")
            .string();
    const Outcome outcome = rehearse_with("queue " + file + " --quiet --json " + options);
    REQUIRE(outcome.exit_code == 0);
    return parse_json(outcome.out, "queue").at("policies").at(0);
  };
  const double alone_s = run("p3.16xlarge", 1, "")["mean_completion_time_s"];
  // Twice: 8 GPUs of one machine and 2 of the one that both have.
  const Json shared = run("p3.16xlarge", 2, "");
  const double shared_s = shared["mean_completion_time_s"];
  CHECK(shared_s > 1.05 * alone_s);
  CHECK(shared_s < 2 * alone_s);
  CHECK(shared["nic_wait_gpu_hours"].get<double>() * 3600 == doctest::Approx(20 * (shared_s - alone_s)).epsilon(1e-6));
  CHECK(shared["shared_link_gpu_hours"].get<double>() * 3600 == doctest::Approx(20 * shared_s).epsilon(1e-6));
  CHECK(run("p3.16xlarge", 2, "--set /interference=0")["mean_completion_time_s"] == doctest::Approx(alone_s));
  // Each GPU of a p5.48xlarge has a NIC of its own.
  CHECK(run("p5.48xlarge", 2, "")["shared_link_gpu_hours"] == 0);
}

TEST_CASE("what queue refuses, in one line") {
  const TemporaryFolder folder;
  const std::string file = folder.write("q.json", kSmall).string();
  const auto refused = [](const std::string& arguments, int code) {
    const Outcome outcome = rehearse_with("queue " + arguments);
    CHECK(outcome.exit_code == code);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    return outcome.err;
  };
  CHECK(refused(file + " --policy fiffo", 2) ==
        "rehearse: --policy: unknown policy \"fiffo\"; did you mean \"fifo\"?\n");
  CHECK(refused(file + " --set polcy=srtf", 2).find("unknown name \"polcy\"") != std::string::npos);
  CHECK(refused(file + " --set /cluster/groups/0/machines=0", 2) ==
        "rehearse: --set /cluster/groups/0/machines: expected 1 to 100000; found 0\n");
  CHECK(refused(file + " --set /jobs/0/gpus=9", 2) ==
        "rehearse: " + file +
            ": job \"a-1\" asks for 9 GPUs of one group; the largest group, \"g\", has 8 (with "
            "--set /jobs/0/gpus=9)\n");
  CHECK(refused(file + " --max-wall-time 1us", 3) == "rehearse: stopped by --max-wall-time 1us\n");
  CHECK(refused(kRoot + "/scenarios/cm-dare.json", 2).find("cm-dare.json: ") != std::string::npos);
}

}  // namespace rehearse
