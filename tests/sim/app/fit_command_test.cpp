// rehearse fit as its user meets it.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

TEST_CASE("fit prints runs, values and predictions, and the scenario that it writes has what was fitted in it") {
  const TemporaryFolder folder;
  write_file(folder / "runs.csv", "gpus,samples_per_s\n1,360\n2,690\n4,1330\n8,2500\n16,4300\n");
  const std::string command = "fit " + source_folder() + "/scenarios/dgx.json " + (folder / "runs.csv").string() +
                              " --gpus 32 --quiet -o " + (folder / "mine").string();
  const Outcome outcome = rehearse_with(command);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  for (const char* text : {"measured samples_per_s", "this size left out", "step of one V100 with 128 samples",
                           "variation of a step's compute time", " of a size that the fit has not seen\n", "\n32    "})
    CHECK_MESSAGE(outcome.out.find(text) != std::string::npos, text);
  const Json summary = parse_json(read_file(folder / "mine" / "summary.json", kMiB), "summary");
  CHECK(summary["runs"].size() == 5);
  CHECK(summary["mean_error_fitted"].get<double>() < 0.3 * summary["mean_error_before"].get<double>());
  CHECK(rehearse_with(command + " --json -j 1").out == read_file(folder / "mine" / "summary.json", kMiB));

  // Both ways to use it predict the same.
  const std::string simulate =
      "simulate " + (folder / "mine" / "scenario.json").string() + " --set /cluster/groups/0/count=4 --json --quiet";
  const Outcome by_scenario = rehearse_with(simulate);
  REQUIRE(by_scenario.exit_code == 0);
  const double speed = parse_json(by_scenario.out, "summary")["samples_per_s"].get<double>();
  CHECK(speed == doctest::Approx(summary["predictions"][0]["samples_per_s"].get<double>()).epsilon(0.01));
  const Outcome by_profile =
      rehearse_with(simulate + " --catalog " + (folder / "mine" / "catalog").string() + " --set /calibration=own");
  CHECK(parse_json(by_profile.out, "summary")["samples_per_s"].get<double>() == speed);
}

TEST_CASE("fit needs no scenario for a model and machines of the catalogs") {
  const TemporaryFolder folder;
  write_file(folder / "runs.csv", "gpus,batch_per_gpu,step_time_s\n1,64,0.21\n2,64,0.22\n8,64,0.25\n8,128,0.47\n");
  const std::string asked = " --model resnet50 --instance p3.16xlarge ", table = (folder / "runs.csv").string();
  const Outcome outcome =
      rehearse_with("fit " + table + asked + "--gpus 64 --json --quiet -o " + (folder / "o").string());
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json prediction = parse_json(outcome.out, "summary")["predictions"][0];
  CHECK(prediction["samples_per_step"] == 64 * 128);  // as the last run of the most GPUs
  CHECK(prediction["iteration_time_s"].get<double>() > 0.4);
  CHECK(rehearse_with("simulate " + (folder / "o" / "scenario.json").string() + " --quiet").exit_code == 0);
  write_file(folder / "none.csv", "gpus,step_time_s\n1,0.21\n");
  check_refused("fit " + table, 2, "RUNS is required behind the scenario");
  check_refused("fit " + table + " --model resnet50", 2, "--model: expected --instance beside it");
  check_refused("fit " + table + " --instance p3.16xlarge", 2, "--instance: expected --model beside it");
  check_refused("fit " + table + " --model resnet5 --instance p3.16xlarge", 2, "unknown model \"resnet5\"");
  check_refused("fit " + table + " --model resnet50 --instance p3.17xlarge", 2, "unknown instance \"p3.17xlarge\"");
  check_refused("fit " + (folder / "none.csv").string() + asked, 2, "none.csv:2: expected a column batch_per_gpu");
}

TEST_CASE("fit takes logs, and refuses in one line what it cannot use") {
  const TemporaryFolder folder;
  const std::string log = source_folder() + "/calibration/data/own-examples/logs/composer.log";
  const std::string scenario = "fit " + source_folder() +
                               "/scenarios/llm-foundry-fsdp.json --set /workload/batch_per_worker=6 --set "
                               "/training/strategy/accumulation_steps=1 ";
  const Outcome outcome = rehearse_with(scenario + "8=" + log + " --quiet");
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("with runs of three sizes it could say") != std::string::npos);
  const auto refusal = [&](const std::string& arguments) {
    const Outcome refused = rehearse_with(scenario + arguments + " --quiet");
    CHECK(refused.exit_code == 2);
    CHECK(refused.out.empty());
    return refused.err;
  };
  CHECK(refusal("8=" + log + " --gpus 0") == "rehearse: --gpus: expected 1 to 1000000 GPUs; found \"0\"\n");
  CHECK(refusal("8=" + log + " --name auto") ==
        "rehearse: --name: expected a name without /, other than \"auto\"; found \"auto\"\n");
  CHECK(refusal("4=" + log).find("12 GPUs") == std::string::npos);
  write_file(folder / "runs.csv", "gpus,step_time_s\n8,1\n");
  CHECK(refusal("8=" + log + " " + (folder / "runs.csv").string())
            .ends_with("runs.csv: expected samples_per_s, as the files before; found iteration_time_s\n"));
  CHECK(refusal((folder / "none.csv").string()).ends_with("none.csv: cannot read: No such file or directory\n"));
}

}  // namespace rehearse
