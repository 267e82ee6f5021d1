#include "predictor/measured_series.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "predictor/dataset.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {
namespace {

MeasuredSeries read(const std::string& text) { return read_measured_series(parse_csv(text, "series.csv")); }

void check_refused(const std::string& text, const std::string& message) {
  CHECK_THROWS_WITH_AS(read(text), message.c_str(), InputError);
}

}  // namespace

TEST_CASE("a recorded series has the labels of its bursts and mean rates, and none of what was not recorded") {
  // 0.5 s samples; gpu: gap, burst of 2, gap of 3, burst of 1, gap: active (2 + 1) / 2 samples, idle 3 samples,
  // peaks 0.8 and 0.4. receive: above 1 % of 200 in the second sample to the fourth.
  const MeasuredSeries series = read(
      "time_s,gpu_utilization,receive_Bps\n"
      "10,0,0\n10.5,0.6,100\n11.01,0.8,200\n11.5,0,3\n12,0,1\n12.5,0,2\n13,0.4,0\n13.5,0,0\n");
  CHECK(series.period.value() == doctest::Approx(0.5));
  const std::vector<double> labels = labels_of(series, Seconds{0.25});
  REQUIRE(labels.size() == label_names().size());
  for (const std::size_t unknown : {0U, 1U, 2U, 9U, 10U, 11U, 14U}) {
    CAPTURE(unknown);
    CHECK(std::isnan(labels[unknown]));
  }
  CHECK(labels[3] == doctest::Approx(1.5));
  CHECK(labels[4] == doctest::Approx(0.75));
  CHECK(labels[5] == doctest::Approx(0.6));
  CHECK(labels[7] == doctest::Approx(1.5));
  CHECK(labels[8] == 200);
  CHECK(labels[12] == 0.25);
  CHECK(labels[13] == doctest::Approx(306.0 / 8));
  CHECK(std::isnan(labels_of(series, std::nullopt)[12]));
}

TEST_CASE("counters of a trace are a series: of the first process with a GPU, in their units") {
  std::vector<TraceCounter> counters{{"1", "NIC receive, MB/s", "value", {{0, 1}, {500, 1}, {1000, 1}}},
                                     {"2", "NIC receive, MB/s", "value", {{100, 2}, {600, 0.5}, {1100, 0}}},
                                     {"2", "queue", "length", {{7, 1}}},
                                     {"2", "GPU", "gpu_utilization", {{100, 0.25}, {600, 1}, {1100, 0}}},
                                     {"3", "GPU utilization, %", "value", {{100, 1}, {600, 1}, {1100, 1}}}};
  MeasuredSeries series = read_measured_series(counters, "t.json");
  CHECK(series.period.value() == doctest::Approx(500e-9));
  CHECK(series.receive == std::vector<double>{2e6, 5e5, 0});
  CHECK(series.gpu == std::vector<double>{0.25, 1, 0});
  CHECK(series.memory.empty());
  CHECK(series.transmit.empty());
  counters.erase(counters.begin() + 3);
  CHECK(read_measured_series(counters, "t.json").gpu == std::vector<double>{0.01, 0.01, 0.01});
  counters.erase(counters.begin() + 3);
  CHECK(read_measured_series(counters, "t.json").receive == std::vector<double>{1e6, 1e6, 1e6});
}

TEST_CASE("counters of a trace that are no series are refused with their name") {
  const auto check_counters = [](const std::vector<TraceCounter>& counters, const std::string& message) {
    CHECK_THROWS_WITH_AS(read_measured_series(counters, "t.json"), ("t.json: " + message).c_str(), InputError);
  };
  const std::string expected =
      R"(expected a counter "gpu_utilization", "memory_utilization", "receive_Bps", "transmit_Bps", "GPU utilization, %", )"
      R"("GPU memory utilization, %", "NIC receive, MB/s" and "NIC transmit, MB/s"; found )";
  check_counters({}, expected + "none");
  check_counters({{"1", "queue", "length", {{0, 1}, {1, 1}, {2, 1}}}}, expected + "\"queue\"");
  const std::vector<CounterSample> good{{0, 1}, {500, 1}, {1000, 1}};
  const auto with = [&](const std::string& name, std::vector<CounterSample> samples) {
    return std::vector<TraceCounter>{{"1", "gpu_utilization", "value", good}, {"1", name, "value", std::move(samples)}};
  };
  check_counters(with("receive_Bps", {{0, 1}, {1, 1}}),
                 R"(counter "receive_Bps": expected at least three rows of a time series)");
  check_counters(
      with("receive_Bps", {{0, 1}, {600, 1}, {1000, 1}}),
      R"(counter "receive_Bps": value 2: expected rows at a fixed period, which is 500ns on average; found 600ns after the first one)");
  check_counters(with("receive_Bps", {{1, 1}, {501, 1}, {1001, 1}}),
                 R"(counter "receive_Bps": expected values at the dates of those of "gpu_utilization")");
  check_counters(with("receive_Bps", {{0, 1}, {500, -1}, {1000, 1}}),
                 R"(counter "receive_Bps": value 2: expected bytes per second, from 0 to 1e15; found -1.0)");
  check_counters(with("memory_utilization", {{0, 1}, {500, 1}, {1000, 85}}),
                 R"(counter "memory_utilization": value 3: expected a share of 0 to 1; found 85.0)");
  check_counters(with("GPU utilization, %", good),
                 R"(counter "GPU utilization, %": expected one counter of this kind of process 1; found two)");
}

TEST_CASE("whether a file is a CSV or a trace, its content tells") {
  const test::TemporaryFolder folder;
  const std::string events = R"([{"ph":"C","name":"gpu_utilization","pid":1,"ts":0,"args":{"value":0}},
    {"ph":"C","name":"gpu_utilization","pid":1,"ts":10000,"args":{"value":1}},
    {"ph":"C","name":"gpu_utilization","pid":1,"ts":20000,"args":{"value":0}}])";
  for (const auto& [name, text] : {std::pair{"a.csv", std::string{"time_s,gpu_utilization\n0,0\n0.01,1\n0.02,0\n"}},
                                   {"a.json", events},
                                   {"a.gz", gzip(events)}}) {
    write_file(folder / name, text);
    const MeasuredSeries series = load_measured_series(folder / name);
    CHECK(series.period.value() == doctest::Approx(0.01));
    CHECK(series.gpu == std::vector<double>{0, 1, 0});
  }
  CHECK_THROWS_WITH_AS(load_measured_series(folder / "absent"), doctest::Contains("absent"), InputError);
}

TEST_CASE("a series that is not sound is refused with its line") {
  check_refused("time_s,gpu_utilization\n0,0\n1,0\n", "series.csv: expected at least three rows of a time series");
  check_refused("time_s,gpu_utilization\n0,0\n1,0\n1.8,0\n3,0\n",
                "series.csv:4: column \"time_s\": expected rows at a fixed period, which is 1s on average; found 1.8");
  check_refused("time_s,gpu_utilization\n0,0\n0,0\n0,0\n", "series.csv:4: column \"time_s\": expected times that rise");
  check_refused("time_s,gpu_utilization\n0,0\n1,85\n2,0\n",
                "series.csv:3: column \"gpu_utilization\": expected a share of 0 to 1; found 85");
  check_refused("time_s,receive_Bps\n0,0\n1,-1\n2,0\n",
                "series.csv:3: column \"receive_Bps\": expected bytes per second, from 0 to 1e15; found -1");
  check_refused("time_s,gpu_utilisation\n0,0\n1,0\n2,0\n",
                "series.csv: unknown column \"gpu_utilisation\"; did you mean \"gpu_utilization\"?");
  check_refused("time_s,gpu_utilization,note\n0,0,a\n1,0,b\n2,0,c\n",
                "series.csv: unknown column \"note\"; known: \"time_s\", \"gpu_utilization\", \"memory_utilization\", "
                "\"receive_Bps\", \"transmit_Bps\"");
  check_refused("time_s\n0\n1\n2\n",
                "series.csv: expected a column gpu_utilization, memory_utilization, receive_Bps or transmit_Bps");
}

}  // namespace rehearse
