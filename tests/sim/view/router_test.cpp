#include "sim/view/router.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/scenario/scenario.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

/// A router whose program only says what it was asked.
struct Routed {
  explicit Routed(const std::string& program = "#!/bin/sh\necho \"$@\"\n") {
    fs::create_directories(folder / "served");
    folder.write("program", program);
    fs::permissions(folder / "program", fs::perms::owner_all);
    router = std::make_unique<Router>(ViewSetup{.folder = folder / "served",
                                                .program = folder / "program",
                                                .pages = source_folder() + "/sim/app/pages",
                                                .scenario_schema = "{}",
                                                .sweep_schema = "{\"a\":1}",
                                                .token = "secret"});
    router->set_port(8000);
  }

  HttpResponse get(const std::string& target) const {
    return router->answer({.method = "GET", .target = target, .headers = {{"Host", "localhost:8000"}}});
  }
  HttpResponse post(const std::string& target, const Json& body) const {
    return router->answer({.method = "POST",
                           .target = target,
                           .headers = {{"host", "localhost:8000"},
                                       {"ORIGIN", "http://localhost:8000"},
                                       {"X-Rehearse-Token", "secret"},
                                       {"Content-Type", "application/json"}},
                           .body = body.dump()});
  }

  test::TemporaryFolder folder;
  std::unique_ptr<Router> router;
};

}  // namespace

TEST_CASE("requests are answered by their method and path") {
  const Routed of;
  CHECK(of.get("/").body.find("content=\"secret\"") != std::string::npos);
  CHECK(of.get("/?query").status == 200);
  for (const char* name : {"/page.css", "/view.css", "/tables.js", "/form.js", "/view.js"})
    CHECK(of.get(name).status == 200);
  CHECK(of.get("/api/schema/sweep").body == "{\"a\":1}");
  CHECK(of.get("/api/schema/model").status == 404);
  CHECK(of.get("/page.js").status == 404);
  CHECK(of.get("/api/jobs").body == "[]");
  CHECK(of.get("/api/cancel").status == 404);
  CHECK(of.post("/", Json::object()).status == 404);
  of.folder.write("served/a b%.csv", "x");
  CHECK(of.get("/files/a%20b%25.csv").file->size() == 1);
  CHECK(of.get("/files/a b%25.csv").status == 200);
  CHECK(of.get("/files/a%2").status == 400);
  CHECK(of.get("files").status == 400);
}

TEST_CASE("before the port is known nothing is answered") {
  const Routed of;
  of.router->set_port(0);
  CHECK(of.router->answer({.method = "GET", .target = "/", .headers = {{"Host", "localhost:0"}}}).status == 403);
}

TEST_CASE("what is refused before its body is there is refused without it") {
  const Routed of;
  HttpRequest request{.method = "POST",
                      .target = "/api/run",
                      .headers = {{"Host", "[::1]:8000"},
                                  {"Origin", "http://[::1]:8000"},
                                  {"X-Rehearse-Token", "secret"},
                                  {"Content-Type", "application/json; charset=utf-8"},
                                  {"Content-Length", "1048576"}}};
  CHECK_FALSE(of.router->refusal(request));
  for (const char* length : {"1048577", "-1", "1e3", "99999999999999999999999999"}) {
    request.headers.back().second = length;
    CHECK(of.router->refusal(request)->status == 413);
  }
  request.headers.pop_back();
  request.headers.emplace_back("Origin", "http://[::1]:8000");  // twice
  CHECK(of.router->refusal(request)->status == 403);
}

TEST_CASE("a check and a run start the program on the text, where paths in it begin") {
  const Routed of;
  fs::create_directories(of.folder / "served/run/below");
  of.folder.write("served/run/summary.json", "{}");
  of.folder.write("served/run/scenario.json", "{}");
  const Json draft{{"path", "run/scenario.json"}, {"text", "{ \"a\": 1 }"}, {"name", "new"}};
  CHECK(Json::parse(of.post("/api/check", draft).body) ==
        Json{{"is_valid", true}, {"said", "simulate run/scenario.json --dry-run\n"}});
  Json varied = draft;
  varied["vary"] = {"/a=1..3"};
  CHECK(Json::parse(of.post("/api/check", varied).body)["said"] ==
        "sweep run/scenario.json --grid=/a=1..3 --dry-run\n");
  CHECK(fs::is_empty(of.folder / "served/run/below"));
  CHECK(Json::parse(of.post("/api/run", draft).body) == Json{{"id", 1}, {"result", "new"}});
  CHECK(of.post("/api/run", draft).status == 409);
  of.router->stop();
  CHECK(of.post("/api/run", {{"path", ""}, {"text", "{}"}, {"name", "other"}}).status == 429);
  CHECK_FALSE(fs::exists(of.folder / "served/other.json"));
}

TEST_CASE("a program that cannot be started, and a folder that cannot be written, are said") {
  const Routed of{"no program"};
  CHECK(Json::parse(of.post("/api/check", {{"path", ""}, {"text", "{}"}}).body)["is_valid"] == false);
  fs::remove_all(of.folder / "served");
  const HttpResponse response = of.post("/api/run", {{"path", ""}, {"text", "{}"}, {"name", "x"}});
  CHECK(response.status == 400);
  CHECK(response.body.find("cannot write") != std::string::npos);
}

TEST_CASE("no text of a shipped scenario, nor of what an effective one holds, is taken for a path that leads out") {
  const fs::path root = fs::canonical(source_folder());
  for (const char* folder :
       {"scenarios", "scenarios/sweeps", "calibration/profiles", "platforms/catalog", "workloads/models"})
    for (const auto& entry : fs::directory_iterator{root / folder}) {
      if (entry.path().extension() != ".json") continue;
      CAPTURE(entry.path().string());
      const auto outside = find_path_outside(load_json_file(entry.path()), {root / folder}, {root});
      CHECK(outside.value_or("nothing") == "nothing");
    }
}

}  // namespace rehearse
