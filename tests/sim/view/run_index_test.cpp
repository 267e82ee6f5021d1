#include "sim/view/run_index.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

Json index_of(const fs::path& path) {
  const ServedFolder folder{path};
  return Json::parse(RunIndex{folder}.text());
}

}  // namespace

TEST_CASE("results are known by their files, wherever they lie; scenarios by their keys") {
  const test::TemporaryFolder scratch;
  for (const char* name : {"run", "a/b/sweep", "diff", "plan", "strange", ".hidden"})
    fs::create_directories(scratch / name);
  scratch.write("run/summary.json",
                R"({"format": 1, "name": "x", "steps_per_s": 2, "samples_per_s": 64, "time_s": 5, "cost_usd": null})");
  scratch.write("run/scenario.json", "{}");
  scratch.write("run/report.html", "");
  scratch.write("a/b/sweep/results.sqlite", "");
  scratch.write("a/b/sweep/sweep.csv", "");
  scratch.write("a/b/sweep/sweep.html", "");
  scratch.write("diff/diff.json", R"({"format": 1, "a": {"run": "run"}, "b": {"run": "other"}})");
  scratch.write("plan/summary.json",
                R"({"format": 1, "planner": "ours", "answer": {"plan": "2*p3", "time_s": {"p50": 7}}})");
  scratch.write("strange/summary.json", "no JSON");
  scratch.write(".hidden/summary.json", R"({"format": 1, "steps_per_s": 2})");
  scratch.write("scenario.json", R"({"workload": {}, "cluster": {}, "name": "of the user"})");
  scratch.write("sweep.json", R"({"scenario": "scenario.json", "grid": {}})");
  scratch.write("other.json", "[1]");
  const Json index = index_of(scratch.path);
  const auto run = [&](const std::string& path) {
    for (const Json& one : index["runs"])
      if (one["path"] == path) return one;
    return Json{};
  };
  CHECK(index["runs"].size() == 4);
  CHECK(run("run")["kind"] == "simulate");
  CHECK(run("run")["samples_per_s"] == 64);
  CHECK(run("run")["cost_usd"].is_null());
  CHECK(run("run")["page"] == "run/report.html");
  CHECK(run("run")["scenario"] == "run/scenario.json");
  CHECK(run("run")["files"] == Json{"report.html", "scenario.json", "summary.json"});
  CHECK(run("a/b/sweep")["kind"] == "sweep");
  CHECK(run("a/b/sweep")["page"] == "a/b/sweep/sweep.html");
  CHECK(run("diff")["name"] == "run and other");
  CHECK(run("plan")["kind"] == "provision");
  CHECK(run("plan")["time_s"] == 7);
  CHECK(run("plan")["says"] == "2*p3");
  REQUIRE(index["scenarios"].size() == 2);
  CHECK(index["scenarios"][0]["name"] == "of the user");
  CHECK(index["scenarios"][1]["kind"] == "sweep");
}

TEST_CASE("the version of the list changes with what lies there, and links are not followed") {
  const test::TemporaryFolder scratch;
  fs::create_directories(scratch / "run");
  const Json before = index_of(scratch.path);
  CHECK(index_of(scratch.path) == before);
  fs::create_directory_symlink(scratch.path, scratch / "run/loop");
  CHECK(index_of(scratch.path) == before);
  scratch.write("run/summary.json", R"({"format": 1, "steps_per_s": 2})");
  CHECK(index_of(scratch.path)["version"] != before["version"]);
  for (int i = 0; i < 20; ++i) scratch.write("a" + std::to_string(i), "");
  CHECK(index_of(scratch.path)["is_cut"] == false);
}

}  // namespace rehearse
