// The figures of the study of training traffic, of runs as they are given.

#include "sim/app/output/traffic_figures.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace rehearse {

namespace {

/// Two hosts; 1 to 2 sends `megabytes` a step, 2 to 1 a hundredth.
TrafficOfRun run_of(const std::string& model, double megabytes, double loss_percent, double training_s) {
  TrafficOfRun run{.name = "run of " + model, .framework = "tf_sync_grpc", .model = model, .topology = "ring"};
  run.batch_named = 64;
  run.loss_percent = loss_percent;
  run.training_s = training_s;
  run.figures = {.hosts = {"1", "2"},
                 .matrix = {{0, megabytes * 1e6}, {megabytes * 1e4, 0}},
                 .pair = "1 to 2",
                 .bin_s = 0.01,
                 .gbps = {0, 8, 0},
                 .flow_sizes = {megabytes * 1e4, megabytes * 1e6}};
  return run;
}

}  // namespace

TEST_CASE("a setting has one matrix, the mean over its models, and a line for each of them elsewhere") {
  const std::vector<Section> sections =
      figures_of_runs({run_of("small", 10, 0, 30), run_of("large", 90, 0, 60), run_of("small", 1000, 1, 90)});
  REQUIRE(sections.size() == 4);
  REQUIRE(sections[0].figures.size() == 1);
  CHECK(std::get<HeatMap>(sections[0].figures[0]).title == "tf_sync_grpc, 64, ring");
  CHECK(std::get<HeatMap>(sections[0].figures[0]).values == std::vector<std::vector<double>>{{0, 50}, {0.5, 0}});
  REQUIRE(sections[1].figures.size() == 1);
  REQUIRE(std::get<Plot>(sections[1].figures[0]).series.size() == 2);  // what lost packets is not drawn here
  CHECK(std::get<Plot>(sections[1].figures[0]).series[1].name == "large");
  CHECK(std::get<Plot>(sections[1].figures[0]).series[1].x == std::vector<double>{0, 0.01, 0.02});
  // Half of the flows have up to 10^5 bytes, all up to 10^7.
  const Series& sizes = std::get<Plot>(sections[2].figures.at(0)).series.at(0);
  CHECK(sizes.x == std::vector<double>{5, 5, 7, 7});
  CHECK(sizes.y == std::vector<double>{0, 0.5, 0.5, 1});
}

TEST_CASE("durations are over the shortest of the same model, which is not the one without loss by necessity") {
  const std::vector<Section> sections = figures_of_runs({run_of("small", 10, 0, 30), run_of("small", 10, 0.5, 20),
                                                         run_of("small", 10, 2, 60), run_of("large", 90, 0, 50)});
  const Section& loss = sections.back();
  CHECK(loss.title == "Duration against packet loss");
  REQUIRE(loss.figures.size() == 1);
  REQUIRE(std::get<Plot>(loss.figures[0]).series.size() == 1);  // of the large model there is nothing to compare
  CHECK(std::get<Plot>(loss.figures[0]).series[0].x == std::vector<double>{0, 0.5, 2});
  CHECK(std::get<Plot>(loss.figures[0]).series[0].y == std::vector<double>{1.5, 1, 3});
}

TEST_CASE("runs whose steps are not known are drawn nowhere") {
  TrafficOfRun unknown{.name = "run"};
  CHECK(figures_of_runs({unknown}).empty());
  CHECK(figures_of_runs({}).empty());
}

}  // namespace rehearse
