// The program as its user meets it: exit codes, one-line errors, nothing half-written.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

const std::string kProgram = build_folder() + "/rehearse";

using namespace test;

/// All-reduce of 1000 workers: an update takes long.
std::string slow_step(const TemporaryFolder& folder) {
  Json scenario = load_json_file(kScenario);
  scenario["cluster"]["groups"].erase(0);
  scenario["cluster"]["groups"][0]["count"] = 2000;
  scenario["training"]["strategy"] = {{"kind", "all_reduce"}};
  return folder.write("slow-step.json", to_json_text(scenario)).string();
}

}  // namespace

TEST_CASE("--set takes a key away, so that steps become samples") {
  const Outcome outcome = rehearse_with("simulate " + kScenario +
                                        " --set /training/steps=null --set /training/samples=2560 --quiet --json");
  CHECK(outcome.exit_code == 0);
  CHECK(parse_json(outcome.out, "s")["samples_done"] == 2560);
}

TEST_CASE("every verb that answers about one scenario prints its warnings, unless it is to be quiet") {
  const TemporaryFolder folder;
  const std::string servers = kScenario + " --set /calibration=auto --set /training/steps=200",
                    machines = kRoot + "/scenarios/dgx.json --set /calibration=auto",
                    planned = kRoot + "/scenarios/provision/resnet110.json",
                    output = " -o " + (folder.path / "out").string();
  const std::string chosen = "calibration \"auto\" takes profile", unrevoked = "without a \"spot_pool\"";
  Json scenario = load_json_file(kScenario);
  scenario["calibration"] = "auto";
  const std::string automatic = folder.write("auto.json", to_json_text(scenario)).string();
  const std::pair<std::string, std::string> commands[] = {
      {"simulate " + servers, chosen},
      {"simulate " + servers + " --runs 2", chosen},
      {"simulate " + servers + " --dry-run", chosen},
      {"simulate " + servers + " --explain", chosen},
      {"remaining " + servers + " --step 100 --replaced-after 60s", chosen},
      {"diagnose " + servers + " --measured-speed 10", chosen},
      {"diff " + automatic + " " + automatic, "A and B: " + chosen},
      {"diff " + kScenario + " " + automatic, "B: " + chosen},
      {"export " + machines + output, chosen},
      {"provision " + planned + " --deadline 2600s --target-loss 0.8 --planner spotdnn-paper --runs 2", unrevoked},
  };
  for (const auto& [command, warning] : commands) {
    CAPTURE(command);
    const Outcome outcome = rehearse_with(command);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err.find("rehearse: warning: ") != std::string::npos);
    CHECK(outcome.err.find(warning) != std::string::npos);
    CHECK(rehearse_with(command + " --quiet").err.find("warning") == std::string::npos);
  }
}

TEST_CASE("--exact says that links are shared evenly, where they would not be") {
  const auto warns = [](const std::string& options) {
    const Outcome outcome = rehearse_with("simulate " + kScenario + " --set /training/steps=80 --json " + options);
    CHECK(outcome.exit_code == 0);
    return outcome.out.find("\"share_variation\\\" counts as 0") != std::string::npos;
  };
  CHECK(warns("--exact"));
  CHECK_FALSE(warns("--exact --set /training/share_variation=0"));
  CHECK_FALSE(warns(""));
}

TEST_CASE("a limit, and Ctrl-C, end a run also while no step ends") {
  const TemporaryFolder folder;
  const std::string arguments = "simulate " + slow_step(folder) + " --exact --quiet";
  check_refused(arguments + " --max-wall-time 4s", 3, "stopped by --max-wall-time 4s after 0 of ");
  CHECK(rehearse_with(arguments, "timeout --signal INT --kill-after 10 --preserve-status 2").exit_code == 130);
}

TEST_CASE("durations and rates of absurd size end a run with one line, wherever they stand") {
  const TemporaryFolder folder;
  Json scenario = load_json_file(kScenario);
  scenario["cluster"]["groups"].erase(0);
  scenario["training"]["strategy"] = {{"kind", "all_reduce"}};
  scenario["training"]["steps"] = 8;
  const std::string set = "simulate " + folder.write("s.json", to_json_text(scenario)).string() + " --quiet --set ";
  for (const std::string exact : {"", " --exact"}) {
    for (const std::string setting :
         {"/training/start_interval=1e308s", "/training/start_interval=1e15s", "/training/strategy/cycle_time=1e308s",
          "/training/strategy/cycle_time=1e9s", "/cluster/network/hop_latency=1e300s",
          "'/training/checkpoint={\"every_steps\":1,\"fixed_time\":\"1e308s\",\"rate\":\"1GBps\"}'"})
      check_refused(set + setting + exact, 3, "beyond 1e9 s, 31 years, of simulated time");
    check_refused(
        set + "'/cluster/network={\"topology\":\"torus\",\"dimensions\":[4],\"link_rate\":\"1e-300Bps\"}'" + exact, 2,
        "/cluster/network: expected rates from 1Bps to 1e18Bps; found 1e-300Bps of torus link of workers-0, dimension "
        "0 up");
  }
}

TEST_CASE("bad input is refused with one clear line and exit code 2, or 3 where there is no result") {
  const TemporaryFolder folder;
  const std::string set = "simulate " + kScenario + " --set ";
  check_refused(set + "/training/stepz=3", 2, "--set /training/stepz: unknown key \"stepz\"; did you mean \"steps\"?");
  check_refused(set + "/output/sampling_period=10GBps", 2, "/output/sampling_period: expected a time with a unit");
  check_refused(set + "/cluster/groups/1/count=0", 2,
                "--set /cluster/groups/1/count: expected 1 to 20000 machines; found 0");
  check_refused(set + "/workload/model=cm-dare/none", 2, "unknown model \"cm-dare/none\"");
  check_refused(set + "/training/step_time_variation=NaN", 2, "/training/step_time_variation: expected a number");
  check_refused(set + "/nowhere/at/all=1", 2, "/nowhere");
  check_refused(set + "/training/stepz=null", 2,
                "--set /training/stepz: expected a key that is there, as null takes it away; found none");
  check_refused(set + "nonsense", 2, "--set: expected /json/pointer=value, or GROUP.KEY=value; found \"nonsense\"");
  check_refused(set + "/workload/batch_per_worker=65536", 3, "cm-dare.json: /cluster/groups/1: GPU memory exceeded");
  check_refused(set + "/workload/batch_per_worker=65536", 3, " (with --set /workload/batch_per_worker=65536)");
  check_refused("simulate " + (folder.path / "missing.json").string(), 2, "missing.json: ");
  check_refused("simulate " + folder.path.string(), 2, "");
  check_refused("simulate " + folder.write("empty.json", "").string(), 2, "empty.json:1:1: ");
  check_refused("simulate " + folder.write("list.json", "[1]").string(), 2, "list.json: expected an object");
  check_refused("simulate " + folder.write("brackets.json", std::string(200'000, '[')).string(), 2,
                "brackets.json: expected at most 200 nested levels; found more");
  std::string garbage;
  garbage.resize(10'000'000);
  std::uint32_t state = 1;
  for (char& c : garbage) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  check_refused("simulate " + folder.write("garbage.json", garbage).string(), 2, "garbage.json:1:1: ");
  check_refused("simulate " + kScenario + " -o /proc/nowhere", 2, "/proc/nowhere: cannot create this folder");
  check_refused("simulate " + kScenario + " --catalog " + (folder.path / "none").string(), 2,
                "expected a catalog folder");
  check_refused("simulate " + kScenario + " --max-wall-time 5", 2, "--max-wall-time: expected a time with a unit");
  check_refused("simulate " + kScenario + " --set /training/steps=5000000 --max-wall-time 100ms --quiet", 3,
                "stopped by --max-wall-time 100ms");
  check_refused(set + "/training=5", 2, "/training: expected an object; found 5");
  check_refused(set + "/cluster/groups/0/count=2000 --set /cluster/groups/1/count=2000", 2,
                "/training/strategy: expected at most 1000000 connections between workers and parameter servers; found "
                "4000000");
  check_refused("simulate " + kScenario + " --seed -3", 2, "--seed");
  check_refused("simulate " + kScenario + " --seed 18446744073709551616", 2,
                "--seed: expected a whole number from 0, below 2^64; found \"18446744073709551616\"");
  check_refused("simulate " + kScenario + " --seed ''", 2, "--seed: expected a whole number from 0");
  check_refused("simulate " + kScenario + " --max-wall-time ''", 2, "--max-wall-time: expected a value; found none");
  check_refused("simulate " + kScenario + " --trace-workers ''", 2, "--trace-workers: expected a value; found none");
  for (const std::string name : {"/", "a/..", ".json"})
    check_refused("init " + name, 2, "init: expected a file name, without .json; found ");
  check_refused("", 2, "rehearse --help");
  check_refused("fly", 2, "unknown verb \"fly\"; known: \"init\", \"simulate\"");
  check_refused("simulat x", 2, "unknown verb \"simulat\"; did you mean \"simulate\"?; see rehearse --help");
  check_refused("simulate x --run 5", 2,
                "unknown option \"--run\"; did you mean \"--runs\"?; see rehearse simulate --help");
  check_refused("generate x --count 1 --format drpile -o y", 2, "unknown value \"drpile\"; did you mean \"driple\"?");
  check_refused("simulate " + kScenario +
                    " --set '/name=\xe2\x80\xae"
                    "ab'",
                2, "--set /name: expected text without control characters and invisible ones; found \"\\u202eab\"");
  check_refused("validate " + kRoot + "/scenarios/studies/cm-dare-cluster.json --baseline roof", 2,
                "--baseline: unknown baseline \"roof\"; known: \"cm-dare-linear\", \"cm-dare-polynomial\"");
  check_refused("validate " + kRoot + "/scenarios/studies/kernels-bf16-products.json --baseline linear-scaling", 2,
                "a study of kernels has roofline and nearest-row, and always prints both");
  check_refused("list cars", 2, "list: unknown kind \"cars\"; known: \"gpus\"");
  check_refused("schema nothing", 2, "schema: unknown kind");

  const std::string study = kRoot + "/scenarios/studies/cm-dare-cluster.json --measurements ";
  check_refused("validate " + study + folder.write("empty.csv", "").string(), 2, "empty.csv");
  check_refused("validate " + study + folder.write("other.csv", "a,b\n1,2\n").string(), 2,
                "scenarios/studies/cm-dare-cluster.json: /columns/");
  check_refused("validate " + study + (folder.path / "missing.csv").string(), 2, "missing.csv: ");
  check_refused("validate " + study +
                    folder
                        .write("words.csv",
                               "gpu,num_ps,num_workers,model,batch_size_per_worker,steps_per_s_mean,steps_per_s_"
                               "std\nK80,1,1,resnet15,128,fast,\n")
                        .string(),
                2, "words.csv:2: column \"steps_per_s_mean\": expected a number; found \"fast\"");
}

TEST_CASE("a name in an option or a study that does not exist is bad input, in every verb that takes it") {
  const TemporaryFolder folder;
  const std::string study = "validate " + kRoot + "/scenarios/studies/cm-dare-cluster.json";
  check_refused(study + " --calibration nosuch", 2, "--calibration: unknown profile \"nosuch\"; known: \"");
  check_refused(study + " --calibration cmdare", 2,
                "--calibration: unknown profile \"cmdare\"; did you mean \"cm-dare\"?");
  check_refused(study + " --calibration Auto", 2, "unknown profile \"Auto\"; did you mean \"auto\"?");
  check_refused("validate " + kRoot + "/scenarios/studies/kernels-bf16-products.json --calibration nosuch", 2,
                "--calibration, --computation, --exchange and --without-own-profiles are for others");
  for (const std::string kernels : {"calibrate " + kRoot + "/scenarios/studies/kernels-bf16-products.json"}) {
    check_refused(kernels + " --bootstrap 10", 2, "calibrate: --bootstrap does not go with a study of kernels");
    check_refused(kernels + " --report " + (folder.path / "r.html").string(), 2, "--report does not go with");
  }
  check_refused("sweep " + kScenario + " --grid /cluster/groups/1/count=1..2 --by nosuch", 2,
                "--by: \"nosuch\": unknown");
  check_refused("traffic " + kScenario + " --log nosuch.log", 2,
                "expected runs or captures beside --log; found a scenario");
  check_refused("simulate " + kScenario + " --set /calibration=Auto", 2, "did you mean \"auto\"?");
  check_refused("simulate " + kScenario + " --set /calibration=5", 2, "expected a name or an object; found 5");

  // A study all of whose rows name what does not exist, each in another way.
  const Json good = parse_json(read_file(kRoot + "/scenarios/studies/cm-dare-cluster.json", kMiB), "study");
  const auto study_of = [&](const std::string& batch, const char* pointer = nullptr, const Json& value = {}) {
    Json changed = good;
    changed["scenario"] = kScenario;
    changed["measurements"] =
        folder
            .write("row.csv",
                   "gpu,num_ps,num_workers,model,batch_size_per_worker,steps_per_s_mean,steps_per_s_std\n"
                   "K80,1,1,resnet15," +
                       batch + ",9.9,0.1\n")
            .string();
    if (pointer != nullptr) changed[Json::json_pointer{pointer}] = value;
    return folder.write("study.json", to_json_text(changed)).string();
  };
  const auto check_study = [&](const char* pointer, const Json& value, const std::string& message) {
    check_refused("validate " + study_of("128", pointer, value), 2, message);
  };
  check_study("/target/metric", "nosuch", "unknown metric \"nosuch\"; known: ");
  check_study("/columns/num_workers", "/cluster/nosuch/1/count", "unknown key \"nosuch\"");
  check_study("/columns/gpu/K80", {{"/cluster/groups/1/instance", "nosuch"}}, "unknown instance \"nosuch\"");
  check_study("/columns/model", {{"foo", {{"/workload/model", "alexnet"}}}},
              "unknown model \"resnet15\"; known: \"foo\"");
  // What is there and gives no result: 3.
  check_refused("validate " + study_of("60000"), 3, "GPU memory exceeded");
}

TEST_CASE("a key that takes a time or words names both") {
  const std::string set = "simulate " + kScenario + " --set /training/";
  const std::string both = "/training/start_interval: expected \"random\", \"even\" or a time with a unit, such as ";
  check_refused(set + "start_interval=evn", 2, both + "\"1.5us\" or \"24h\"; found \"evn\"; did you mean \"even\"?");
  check_refused(set + "start_interval=soon", 2, both + "\"1.5us\" or \"24h\"; found \"soon\"");
  check_refused(set + "'start_interval=5 seconds'", 2, both + "\"5s\"; found \"5 seconds\"");
  check_refused(set + "start_interval=5", 2, both + "\"5s\" or \"5ms\"; found 5");
  check_refused(set + "start_interval=true", 2, both + "\"1.5us\" or \"24h\"; found true");
  check_refused(set + "checkpoint/interval=10min", 2, "expected \"young_daly\"; a time goes to \"every\"");
  check_refused(set + "checkpoint/every=young_daly", 2, "expected a time; \"young_daly\" is one of \"interval\"");
}

TEST_CASE("a file that says nothing is said to be empty, by every verb that reads") {
  const TemporaryFolder folder;
  const std::string study = kRoot + "/scenarios/studies/cm-dare-cluster.json";
  fs::create_directory(folder.path / "nothing");
  const std::string nothing = (folder.path / "nothing").string(), out = " -o " + (folder.path / "out").string();
  for (const auto& [content, what] :
       {std::pair{std::string{}, std::string{"found an empty file"}},
        std::pair{std::string{" \n\t\r\n"}, std::string{"found a file of white space alone"}},
        std::pair{std::string{"\xef\xbb\xbf"}, std::string{"found an empty file"}}}) {
    const std::string file = folder.write("file", content).string();
    const std::string packed = folder.write("file.gz", gzip(content)).string();
    for (const std::string& either : {file, packed}) {
      check_refused("import " + either + out, 2, "expected a model; " + what);
      check_refused("replay " + either, 2, "expected a trace; " + what);
      check_refused("export " + either + out, 2, "expected a trace; " + what);
      CHECK(rehearse_with("import " + either + " --dry-run" + out).out.find(what.substr(6)) != std::string::npos);
    }
    check_refused("traffic " + file, 2, "expected a capture or a table of packets; " + what);
    check_refused("validate " + study + " --measurements " + file, 2, "expected a line of column names; " + what);
    check_refused("diagnose " + kScenario + " --measured " + file, 2, "expected a line of column names; " + what);
    check_refused("remaining " + kScenario + " --step 9 --history " + file, 2,
                  "expected a line of column names; " + what);
    for (const std::string verb : {"validate ", "calibrate ", "simulate ", "sweep "})
      check_refused(verb + file, 2, "expected JSON; " + what);
  }
  check_refused("import " + nothing + out, 2,
                fs::exists(build_folder() + "/rehearse-predictor") ? "found none in it" : "rehearse-predictor");
  check_refused("replay " + nothing, 2, "Is a directory");
  check_refused("traffic " + nothing, 2, "found an empty folder");
  check_refused(
      "simulate " + kScenario + " --catalog " + nothing, 2,
      "expected a catalog folder, with JSON files or a folder models, profiles or prices; found an empty folder");
}

TEST_CASE("a row that cannot be simulated counts as 100 % and is listed; the exit code stays 0") {
  const TemporaryFolder folder;
  const fs::path csv =
      folder.write("rows.csv",
                   "gpu,num_ps,num_workers,model,batch_size_per_worker,steps_per_s_mean,steps_per_s_std\n"
                   "K80,1,1,resnet15,128,9.9,0.1\nK80,1,1,resnet99,128,9.9,\nTPU,1,1,resnet15,128,9.9,\nK80,1,1,"
                   "resnet15,60000,9.9,\n");
  const Outcome outcome = rehearse_with(
      "validate " + kRoot + "/scenarios/studies/cm-dare-cluster.json --json --quiet --measurements " + csv.string());
  CHECK(outcome.exit_code == 0);
  const Json summary = parse_json(outcome.out, "summary");
  CHECK(summary["rows"] == 4);
  CHECK(summary["problems"].size() == 3);
  CHECK(summary["problems"][0]["line"] == 3);
  CHECK(summary["problems"][0]["problem"].get<std::string>().find("unknown model \"resnet99\"") == 0);
  CHECK(summary["max_ape"].get<double>() == 100);
}

TEST_CASE("calibrate writes the fitted profile and a page about it, twice the same bytes, and prints the bootstrap") {
  const TemporaryFolder folder;
  folder.write("rows.csv", "workers,speed\n1,4\n2,8\n3,11\n");
  const std::string study =
      folder
          .write("study.json",
                 R"({"format": 1, "scenario": ")" + kRoot +
                     R"(/scenarios/cm-dare.json", "measurements": "rows.csv", "set": {"/training/steps": 40},
                                   "columns": {"workers": "/cluster/groups/1/count"},
                                   "target": {"column": "speed", "metric": "steps_per_s"},
                                   "fit": {"free": [{"value": "/gpu/peak_efficiency/K80", "min": 0.1, "max": 0.9}],
                                           "cross_validate": "workers"}, "group_by": ["workers"]})")
          .string();
  const auto calibrate = [&](const std::string& name) {
    return rehearse_with("calibrate " + study + " --quiet --bootstrap 20 -o " + (folder.path / "p.json").string() +
                         " --report " + (folder.path / name).string());
  };
  const Outcome outcome = calibrate("one.html");
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  for (const char* text : {"1 value fitted to 3 rows by ", "/gpu/peak_efficiency/K80",
                           "bootstrap over rows: ", ", over folds: ", "leaving one (workers) out"})
    CHECK_MESSAGE(outcome.out.find(text) != std::string::npos, text);
  const std::string profile = read_file(folder.path / "p.json", kMiB);
  CHECK(parse_json(profile, "p.json")["fit"]["free_values"] == 1);
  CHECK(read_file(folder.path / "one.html", 4 * kMiB).starts_with("<!doctype html>"));
  CHECK(calibrate("one.html").out == outcome.out);
  CHECK(read_file(folder.path / "p.json", kMiB) == profile);
  check_refused("calibrate " + study + " --bootstrap 0", 2, "--bootstrap");
  check_refused("calibrate " + study + " --report /proc/nowhere/page.html", 2,
                "/proc/nowhere: cannot create this folder");
}

TEST_CASE("simulate -o writes every file, twice the same bytes, and the effective scenario repeats the run") {
  const TemporaryFolder folder;
  const std::string one = (folder.path / "one").string(), two = (folder.path / "two").string(),
                    again = (folder.path / "again").string();
  CHECK(rehearse_with("simulate " + kScenario + " --quiet --set /training/steps=60 -o " + one).exit_code == 0);
  CHECK(rehearse_with("simulate " + kScenario + " --quiet --set /training/steps=60 -o " + two).exit_code == 0);
  CHECK(rehearse_with("simulate " + one + "/scenario.json --quiet -o " + again).exit_code == 0);
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator{one}) {
    const std::string name = entry.path().filename().string();
    names.insert(name);
    const std::string content = read_file(entry.path(), 64 * kMiB);
    CHECK_MESSAGE(content == read_file(fs::path{two} / name, 64 * kMiB), name);
    CHECK_MESSAGE(content == read_file(fs::path{again} / name, 64 * kMiB), name);
  }
  CHECK(names == std::set<std::string>{".rehearse-files", "bursts.csv", "costs.csv", "events.csv", "iterations.csv",
                                       "links.csv", "messages.csv.gz", "report.html", "resources.csv", "scenario.json",
                                       "summary.json", "timeline.json.gz"});
  const Json summary = load_json_file(fs::path{one} / "summary.json");
  for (const char* key :
       {"time_s", "steps_per_s", "steps_per_s_low", "steps_per_s_high", "samples_per_s", "iteration_time_s", "cost_usd",
        "gpu_utilization", "exposed_communication_s", "bottleneck", "fingerprint"})
    CHECK_MESSAGE(summary.contains(key), key);
}

TEST_CASE("a report shows what its strategy has: servers, staleness, waiting for the slowest worker, events") {
  const TemporaryFolder folder;
  const auto report = [&](const std::string& file, const std::string& settings) {
    REQUIRE(rehearse_with("simulate " + kRoot + "/scenarios/" + file + " --quiet --set /training/steps=20 " + settings +
                          " -o " + folder.path.string())
                .exit_code == 0);
    return read_file(folder.path / "report.html", 64 * kMiB);
  };
  const auto check = [](const std::string& html, const std::set<std::string>& there) {
    for (const char* text : {R"("variables","parameters")", "taleness", "for the slowest", R"("title":"Events")"})
      CHECK_MESSAGE((html.find(text) != std::string::npos) == there.contains(text), text);
  };
  check(report("cm-dare.json", "--set /training/start_interval=0s"), {R"("variables","parameters")", "taleness"});
  check(report("cm-dare.json", ""),
        {R"("variables","parameters")", "taleness", R"("title":"Events")"});  // random starts
  check(report("driple/13-v100-ps5-w10.json", ""), {R"("variables","parameters")", "for the slowest"});
  check(report("tum/horovod-ring.json", ""), {"for the slowest"});
  check(report("tum/kungfu-pair-averaging.json", ""), {"taleness", R"("title":"Events")"});
}

TEST_CASE("a report says what would help: simulated where that is soon done, or else asked for") {
  const TemporaryFolder folder;
  const auto report = [&](const std::string& scenario, const std::string& options) {
    REQUIRE(rehearse_with("simulate " + kRoot + "/scenarios/" + scenario + " --quiet " + options + " -o " +
                          folder.path.string())
                .exit_code == 0);
    return read_file(folder.path / "report.html", 64 * kMiB);
  };
  const auto has = [](const std::string& html, const std::string& text) {
    return html.find(text) != std::string::npos;
  };
  const std::string eight = "--set /cluster/groups/1/count=8 --set /training/steps=80 ";
  const std::string simulated = report("cm-dare.json", eight);
  CHECK(has(simulated, R"("title":"What would help, simulated")"));
  CHECK(has(simulated, "/cluster/groups/1/count=9"));
  CHECK(!has(simulated, "Advice"));
  const std::string advice = report("cm-dare.json", eight + "--remedies none");
  CHECK(has(advice, "Advice: remedies are not simulated, as --remedies none asks."));
  CHECK(!has(advice, R"("title":"Remedies")"));
  const std::string many = "--set /cluster/groups/1/count=64 --set /training/steps=1700";
  CHECK(
      has(report("cm-dare.json", many), "as 24 simulations of about 1 s would be long; --remedies all simulates them"));
  // A loss is known of asynchronous servers alone, remedies of this run are other trainings.
  CHECK(
      has(report("spotdnn-revocation.json", "--set /training/steps=2000"), R"("title":"What would help, simulated")"));
  check_refused("simulate " + kScenario + " --remedies all", 2, "--remedies: expected -o beside it");
}

TEST_CASE("the timeline is valid: on each track spans are ordered and do not overlap, and every arrow has two ends") {
  const TemporaryFolder folder;
  REQUIRE(rehearse_with("simulate " + kScenario + " --quiet --set /training/steps=30 -o " + folder.path.string())
              .exit_code == 0);
  const std::string text = gunzip(read_file(folder.path / "timeline.json.gz", 64 * kMiB), 512 * kMiB, "timeline");
  const nlohmann::json trace = nlohmann::json::parse(text);
  std::map<std::pair<int, int>, double> end_of_track;
  std::map<int, int> arrow_ends;
  std::size_t spans = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") ++arrow_ends[event["id"].get<int>()];
    if (event["ph"] != "X") continue;
    ++spans;
    double& end = end_of_track[{event["pid"].get<int>(), event["tid"].get<int>()}];
    const double start = event["ts"].get<double>();
    if (start < end - 1e-6) FAIL("overlap at " << start);
    end = start + event["dur"].get<double>();
  }
  CHECK(spans > 1000);
  CHECK(std::all_of(arrow_ends.begin(), arrow_ends.end(), [](const auto& arrow) { return arrow.second == 2; }));
}

TEST_CASE("a repeatable option takes one value, so that options may stand before the file") {
  const TemporaryFolder folder;
  (void)folder.write("own.json", R"({"format": 1})");
  const std::string run = kScenario + " --dry-run --quiet";
  for (const std::string& arguments :
       {"simulate --set /training/steps=40 --set /seed=2 " + run,
        "simulate --catalog " + folder.path.string() + " --set /training/steps=40 " + run,
        "sweep --set /training/steps=40 --grid /seed=1,2 --constraint /seed==1 " + run,
        "sweep --list /seed=1 --catalog " + folder.path.string() + " " + run})
    CHECK_MESSAGE(rehearse_with(arguments).exit_code == 0, arguments);
  check_refused("simulate " + kScenario + " --set /training/steps=40 /seed=2", 2, "/seed=2");
}

TEST_CASE("init writes a scenario that runs, and never overwrites one") {
  const TemporaryFolder folder;
  const std::string name = (folder.path / "mine").string();
  CHECK(rehearse_with("init " + name).exit_code == 0);
  CHECK(rehearse_with("simulate " + name + ".json --quiet --set /training/steps=40").exit_code == 0);
  check_refused("init " + name, 2, "exists already");
}

TEST_CASE("what init writes of each kind runs as its first line says") {
  for (const std::string kind : {"scenario", "model", "catalog", "study", "sweep", "provision", "space", "queue"}) {
    CAPTURE(kind);
    const TemporaryFolder folder;
    const Outcome made = rehearse_with("init " + (folder.path / "mine").string() + " --kind " + kind);
    REQUIRE(made.exit_code == 0);
    const std::string text = read_file(made.out.substr(0, made.out.find('\n')), kMiB);
    const std::string before = "// Run it:  rehearse ", first = text.substr(0, text.find('\n'));
    REQUIRE(first.starts_with(before));
    std::string command = first.substr(before.size());
    command.resize(command.find("  "));
    if (kind == "scenario") command = "simulate " + (folder.path / "mine.json").string();
    const Outcome run = rehearse_with(command, "timeout 100");
    CAPTURE(command);
    CAPTURE(run.err);
    CHECK(run.exit_code == 0);
    check_refused("init " + (folder.path / "mine").string() + " --kind " + kind, 2, "exists already");
  }
  check_refused("init mine --kind cluster", 2, "--kind: unknown kind \"cluster\"; known: \"scenario\", \"model\"");
}

TEST_CASE("every verb that this program runs has --json, and what it prints then is JSON alone") {
  for (const char* verb :
       {"init", "simulate", "validate", "calibrate", "sweep", "provision", "diff", "remaining", "replay", "export",
        "traffic", "diagnose", "import", "generate", "list", "schema", "merge", "jobs"})
    CHECK_MESSAGE(rehearse_with(std::string{verb} + " --help").out.find("--json") != std::string::npos, verb);
  const TemporaryFolder folder;
  const auto json_of = [&](const std::string& arguments) {
    return parse_json(rehearse_with(arguments).out, arguments);
  };
  const std::string name = (folder / "mine").string();
  CHECK(json_of("init " + name + " --json")["file"] == name + ".json");
  CHECK(json_of("export " + kScenario + " --json --quiet --set /training/steps=40 -o " +
                (folder / "et").string())["ranks"] == 5);
  CHECK(json_of("schema scenario --json") == json_of("schema scenario"));
  const std::string study = kRoot + "/scenarios/studies/own/step-times.json";
  const std::string profile = (folder / "profile.json").string();
  const Json fitted = json_of("calibrate " + study + " --json --quiet --steps 1 -o " + profile);
  CHECK(fitted == load_json_file(profile));
  const std::string graph = kRoot + "/calibration/data/neusight-graphs/bert_large-train-512-8.csv.gz";
  CHECK(json_of("import " + graph + " --json -o " + (folder / "bert.json").string())["parameters"] > 1'000'000);
  CHECK(json_of("import " + graph + " --json --dry-run -o " + (folder / "bert.json").string()).size() == 1);
}

TEST_CASE("--dry-run and --explain say what a run takes and where its numbers come from") {
  const Outcome outcome = rehearse_with("simulate " + kScenario + " --dry-run --explain");
  CHECK(outcome.exit_code == 0);
  for (const char* text :
       {"source: One GK210 die", "1857722 parameters", "GPU memory of workers", "300 steps of 4 workers"})
    CHECK_MESSAGE(outcome.out.find(text) != std::string::npos, text);
}

TEST_CASE("a run whose folder cannot be made prints nothing") {
  const TemporaryFolder folder;
  folder.write("file", "mine");
  const Outcome outcome = rehearse_with("simulate " + kScenario + " --explain -o " + (folder / "file/out").string());
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
}

TEST_CASE("a fit whose files cannot be written is not begun") {
  const TemporaryFolder folder;
  check_refused(
      "calibrate " + kRoot + "/scenarios/studies/own/step-times.json --quiet --report " + folder.path.string(), 2,
      ": cannot write: it is a folder; expected the name of a file");
}

TEST_CASE("list and schema print what the catalogs hold") {
  const std::string gpus = rehearse_with("list gpus").out;
  const Json gpus_as_json = parse_json(rehearse_with("list gpus --json").out, "gpus");
  CHECK(gpus_as_json.size() > 40);
  CHECK(static_cast<std::size_t>(std::count(gpus.begin(), gpus.end(), '\n')) == gpus_as_json.size());
  CHECK(gpus.starts_with("A10 "));
  CHECK(gpus.find("\nV100 ") != std::string::npos);
  CHECK(gpus_as_json[0]["name"] == "A10");
  const Json instances = parse_json(rehearse_with("list instances --json").out, "instances");
  CHECK(std::any_of(instances.begin(), instances.end(), [](const Json& instance) {
    return instance["name"] == "p3.2xlarge" && instance["accelerator"] == "V100" && instance["nic"].is_string() &&
           instance["on_demand"]["usd_per_hour"].is_number();
  }));
  const Json profiles = parse_json(rehearse_with("list profiles --json").out, "profiles");
  CHECK(std::any_of(profiles.begin(), profiles.end(), [](const Json& profile) {
    return profile["name"] == "cm-dare" && profile["strategies"][0] == "parameter_server" &&
           profile["rows"].get<int>() > 100 && profile["error"].get<double>() > 0;
  }));
  const std::string models = rehearse_with("list models").out;
  CHECK(std::count(models.begin(), models.end(), '\n') >= 21);
  CHECK(models.find("\nspotdnn/resnet110") != std::string::npos);
  for (const Json& model : parse_json(rehearse_with("list models --json").out, "models")) {
    const auto name = model["name"].get<std::string>();
    CHECK(model["has_convergence"] == (name == "spotdnn/resnet110"));
    CHECK(model["no_convergence"].is_string() == (name.starts_with("spotdnn/") && name != "spotdnn/resnet110"));
  }
  const std::string messaging = rehearse_with("list messaging").out;
  CHECK(messaging.starts_with("gloo "));
  CHECK(messaging.find("9B before each 16KiB") != std::string::npos);
  const std::string topologies = rehearse_with("list topologies").out;
  CHECK(topologies.starts_with("star               one non-blocking switch for each region\n"));
  CHECK(topologies.find("\ndgx-1-v100         inside a machine: NVIDIA DGX-1 with Tesla V100") != std::string::npos);
  CHECK(rehearse_with("list interconnects").out.starts_with("dgx-1-p100\ndgx-1-v100\n"));
  CHECK_NOTHROW((void)parse_json(rehearse_with("schema scenario").out, "schema"));
  CHECK_NOTHROW((void)parse_json(rehearse_with("schema model").out, "schema"));
  CHECK_NOTHROW((void)parse_json(rehearse_with("schema provision").out, "schema"));
}

TEST_CASE("a study of kernels is compared GPU by GPU, and calibrated alone or with others of other kernels") {
  const TemporaryFolder folder;
  const std::string study = kRoot + "/scenarios/studies/kernels-bf16-products.json";
  const Outcome outcome = rehearse_with("validate " + study + " --quiet -o " + (folder.path / "out").string());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("left out together: A100 80GB; B200; H100") != std::string::npos);
  const Json summary = load_json_file(folder.path / "out" / "summary.json");
  CHECK(summary["metric"] == "kernel_time_s");
  CHECK(summary["errors"]["all"]["kernel_model"]["median_ape"].get<double>() <
        summary["errors"]["all"]["nearest_row"]["median_ape"].get<double>());
  check_refused("validate " + study + " --measurements x.csv", 2, "a study of kernels names its tables");
  check_refused("calibrate " + study + " " + study, 2,
                "kernels of class \"products_reduced\" are in a study before it, too");
  Json alone = load_json_file(study);
  Json& table = alone["tables"][0];
  table["gpu"]["names"] = {{"H100-SXM5-80GB", "H100"}};
  table["file"] = kRoot + "/calibration/data/aiconfigurator-kernels/gemm_bf16.csv.gz";
  check_refused("validate " + folder.write("alone.json", alone.dump()).string(), 3,
                "has nothing to fit where one GPU or architecture is left out");
}

TEST_CASE("a fit of kernels keeps the other sections of the profile that it replaces") {
  const TemporaryFolder folder;
  folder.write("times.csv",
               "gpu,rows,time_us\nV100,1024,4\nV100,65536,9\nV100,1048576,12\nV100,16777216,160\nP100,16777216,210\n");
  const std::string study =
      folder
          .write("copies.json", R"({"format": 1, "kind": "kernels", "leave_out": "gpu", "tables": [
      {"file": "times.csv", "kernel": "copy", "gpu": {"column": "gpu", "names": {"V100": "V100", "P100": "P100"}}, "sizes": {"rows": "rows", "columns": 1},
       "precision": "fp32", "time": {"column": "time_us", "unit": "us"}}]})")
          .string();
  const fs::path profile = folder.path / "kernels.json";
  const std::string fit = "calibrate " + study + " --quiet -o " + profile.string();
  REQUIRE(rehearse_with(fit).exit_code == 0);
  CHECK_FALSE(load_json_file(profile).contains("frameworks"));
  Json before = load_json_file(kRoot + "/calibration/profiles/kernels.json");
  before["name"] = "mine";
  folder.write("kernels.json", before.dump());
  REQUIRE(rehearse_with(fit).exit_code == 0);
  const Json after = load_json_file(profile);
  CHECK(after["frameworks"] == before["frameworks"]);
  CHECK(after["kernels"] != before["kernels"]);
  CHECK(after["name"] == "kernels");
  folder.write("kernels.json", R"({"format": 1, "name": "other"})");
  check_refused(fit, 2, "kernels.json: expected the key \"source\"");
}

TEST_CASE("a name that is too long for a file is the user's mistake") {
  test::check_refused("init " + std::string(300, 'x'), 2, "File name too long");
}

TEST_CASE("a user's own catalog overrides the shipped one") {
  const TemporaryFolder folder;
  folder.write(
      "mine.json",
      R"({"format": 1, "instances": {"gce-custom-4": {"vcpus": 4, "memory": "32GiB", "nic": "80Gbps", "source": "me"}}})");
  const std::string arguments = "simulate " + kScenario + " --json --quiet --set /training/steps=80";
  const Json shipped = parse_json(rehearse_with(arguments).out, "shipped");
  const Json own = parse_json(rehearse_with(arguments + " --catalog " + folder.path.string()).out, "own");
  CHECK(own["machines"][0]["nic_send_utilization"].get<double>() <
        0.2 * shipped["machines"][0]["nic_send_utilization"].get<double>());
}

TEST_CASE("Ctrl-C ends a run with exit code 130 and leaves nothing half-written") {
  const TemporaryFolder folder;
  const std::string out = (folder.path / "out").string();
  const int status = std::system(("timeout --preserve-status -s INT 1 " + kProgram + " simulate " + kScenario +
                                  " --quiet --set /training/steps=3000000 -o " + out + " 2>/dev/null")
                                     .c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("instances are listed by GPU, provider and spot price") {
  const auto names = [](const std::string& options) {
    const Outcome outcome = rehearse_with("list instances --json " + options);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    std::set<std::string> names;
    for (const Json& entry : parse_json(outcome.out, "list")) names.insert(entry["name"].get<std::string>());
    return names;
  };
  const std::set<std::string> of_v100 = names("--gpu V100 --provider aws");
  CHECK(of_v100 == std::set<std::string>{"p3.2xlarge", "p3.8xlarge", "p3.16xlarge", "p3dn.24xlarge"});
  CHECK(names("--gpu V100 --provider aws --spot") == std::set<std::string>{"p3.2xlarge", "p3.8xlarge", "p3.16xlarge"});
  CHECK(names("").size() > names("--provider gce").size());
  check_refused("list instances --gpu V10", 2, "--gpu: unknown GPU \"V10\"");
  check_refused("list gpus --spot", 2, "expected \"instances\"; found \"gpus\"");
  check_refused("list instances --gpu P4", 3, "the catalogs have no instance with \"P4\"");
}

}  // namespace rehearse
