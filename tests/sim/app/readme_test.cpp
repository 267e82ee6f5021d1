// Every command of the READMEs runs: those of each in their order, in a folder of its own.

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/program.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

using namespace test;

/// What follows "./run.sh" in a README's code blocks, lines that go on put together, without comments.
std::vector<std::string> readme_commands(const std::string& readme) {
  std::istringstream lines{read_file(kRoot + "/" + readme, 4 * kMiB)};
  std::vector<std::string> commands;
  bool is_code = false, goes_on = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_code = !is_code;
      continue;
    }
    const std::string start = "./run.sh ";
    if (!is_code || (!goes_on && !line.starts_with(start))) continue;
    std::string text = goes_on ? line : line.substr(start.size());
    text = text.substr(0, text.find(" #"));
    text.erase(text.find_last_not_of(' ') + 1);
    const bool was_going_on = goes_on;
    goes_on = text.ends_with('\\');
    if (goes_on) text.pop_back();
    if (was_going_on)
      commands.back() += text;
    else if (text.find_first_not_of(' ') != std::string::npos)
      commands.push_back(text);
  }
  return commands;
}

/// Of the predictor, and what makes its data sets: minutes.
bool is_slow(const std::string& command) {
  for (const char* verb : {"generate", "train", "compare", "predict"})
    if (command.starts_with(verb)) return true;
  return command.starts_with("import") && command.find(".db") != std::string::npos;
}

/// The same command for a shorter run: that it runs is what is tested.
std::string shorter_run(std::string command) {
  static const std::vector<std::pair<std::string, std::string>> kShorter{
      {"--runs 200", "--runs 5"},
      {"--runs 1000", "--runs 5"},
      {"--count 400", "--count 60"},
      {"--epochs 20", "--epochs 2"},
      {"scenarios/studies/measured.json", "few.json"},
      {"scenarios/cm-dare-spot.json", "scenarios/cm-dare-spot.json --set /training/steps=200"},
      {"scenarios/sweeps/cm-dare-workers.json", "scenarios/sweeps/cm-dare-workers.json --set /training/steps=20"},
      {"scenarios/sweeps/resnet50-ec2.json", "scenarios/sweeps/resnet50-ec2.json --set /training/steps=5"},
      {"--model llama3_70b --tokens 1T --gpus 512", "--model llama3_8b --tokens 1T --gpus 16 --simulated 4"},
      {"--gpus 128 --budget", "--gpus 8 --simulated 4 --budget"},
      {"sweep my-run.json", "sweep my-run.json --set /training/steps=40"},
      {"simulate my-run.json", "simulate my-run.json --set /training/steps=400"}};
  for (const auto& [text, shorter] : kShorter)
    if (const std::size_t at = command.find(text); at != std::string::npos) command.replace(at, text.size(), shorter);
  return command;
}

void check_commands(bool slow_ones) {
  std::size_t count = 0;
  for (const std::string readme :
       {"README.md", "sim/README.md", "sim/plan/README.md", "predictor/README.md", "scenarios/studies/own/README.md"}) {
    CAPTURE(readme);
    const TemporaryFolder folder;
    for (const std::string part : {"scenarios", "calibration"})
      fs::create_directory_symlink(kRoot + "/" + part, folder.path / part);
    folder.write("few.json", R"({"format": 1, "studies": ["scenarios/studies/cm-dare-single-worker.json",
                                 "scenarios/studies/hkbu-ddl-benchmarks.json",
                                 "scenarios/studies/oneflow-dlperf-resnet50.json"]})");
    for (const std::string& command : readme_commands(readme)) {
      if (is_slow(command) != slow_ones) continue;
      ++count;
      const Outcome outcome = rehearse_with(shorter_run(command), "cd " + folder.path.string() + " &&");
      CAPTURE(command);
      CAPTURE(outcome.err);
      CHECK(outcome.exit_code == 0);
    }
  }
  CHECK(count >= 6);
}

}  // namespace

TEST_CASE("every command of the READMEs runs") { check_commands(false); }

/// Trains networks: ctest -L slow.
TEST_CASE("every command of the READMEs about the predictor runs") {
  if (fs::exists(build_folder() + "/rehearse-predictor")) check_commands(true);
}

}  // namespace rehearse
