// Sums over packets, and what is read off them.

#include "sim/traffic/traffic.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "sim/base/errors.hpp"
#include "sim/traffic/burstiness.hpp"
#include "sim/traffic/regression.hpp"
#include "sim/traffic/run_name.hpp"
#include "sim/traffic/step_log.hpp"
#include "sim/traffic/traffic_statistics.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kMs = 1'000'000;

Packet packet_at(std::int64_t time_ns, std::uint32_t from, std::uint32_t to, std::int64_t size) {
  return {.time_ns = time_ns,
          .wire_bytes = size,
          .from = Address::v4(from),
          .to = Address::v4(to),
          .from_port = 1,
          .to_port = 2,
          .protocol = kTcp,
          .is_ip = true};
}

Packet segment(std::uint32_t sequence, std::int64_t payload) {
  Packet packet = packet_at(0, 1, 2, payload + 66);
  packet.has_sequence = packet.has_payload = true;
  packet.sequence = sequence;
  packet.payload_bytes = payload;
  return packet;
}

/// Square bursts of `on` bins every `period` bins.
std::vector<double> square(std::size_t bins, std::size_t period, std::size_t on) {
  std::vector<double> series(bins);
  for (std::size_t i = 0; i < bins; ++i) series[i] = i % period < on ? 1000 : 0;
  return series;
}

}  // namespace

TEST_CASE("what is sent is received, in any order of the packets") {
  const std::vector<Packet> packets{packet_at(5 * kMs, 1, 2, 100), packet_at(25 * kMs, 2, 1, 60),
                                    packet_at(26 * kMs, 1, 3, 1000), Packet{.time_ns = 27 * kMs, .wire_bytes = 42}};
  TrafficCounter forward{5 * kMs, kMs}, backward{5 * kMs, kMs};
  for (const Packet& packet : packets) forward.add(packet);
  for (auto it = packets.rbegin(); it != packets.rend(); ++it) backward.add(*it);
  const ObservedTraffic traffic = forward.finish(), other = backward.finish();
  CHECK(traffic.hosts == other.hosts);
  CHECK(traffic.pairs == other.pairs);
  CHECK(traffic.flows == other.flows);
  CHECK(traffic.bins == other.bins);
  CHECK(traffic.total.wire_bytes == 1202);
  CHECK(traffic.other.wire_bytes == 42);
  REQUIRE(traffic.hosts.size() == 3);
  CHECK(traffic.hosts[0].sent.wire_bytes == 1100);
  CHECK(traffic.hosts[0].received.wire_bytes == 60);
  CHECK(traffic.pairs.size() == 3);
  CHECK(traffic.flows[1].arrival_ns == 21 * kMs);
  CHECK(traffic.bins.at(0) == 100);
  CHECK(traffic.bins.at(20) == 60);
  CHECK(traffic.bins.at(22) == 42);
}

TEST_CASE("bins grow when there would be too many, and lose no byte") {
  TrafficCounter counter{0, kMs};
  for (std::int64_t i = 0; i < 100; ++i) counter.add(packet_at(i * 1'000'000 * kMs, 1, 2, 10));  // over more than a day
  counter.add(packet_at(-5 * kMs, 1, 2, 7));
  const ObservedTraffic traffic = counter.finish();
  CHECK(traffic.bin_ns > kMs);
  CHECK(std::accumulate(traffic.bins.bytes.begin(), traffic.bins.bytes.end(), std::int64_t{0}) == 1007);
  CHECK(traffic.bins.bytes == traffic.pairs[0].bins.bytes);
  CHECK(traffic.bins.bytes.size() < 8'000'000);
}

TEST_CASE("packets that come backwards in time are those that come forwards") {
  TrafficCounter forwards{0, kMs}, backwards{0, kMs};
  constexpr int kPackets = 20'000;
  for (int i = 0; i < kPackets; ++i) {
    forwards.add(packet_at(i * 1000 * kMs, 1, 2, 100 + i % 7));
    backwards.add(packet_at((kPackets - 1 - i) * 1000 * kMs, 1, 2, 100 + (kPackets - 1 - i) % 7));
  }
  const ObservedTraffic a = forwards.finish(), b = backwards.finish();
  CHECK(a.bin_ns == b.bin_ns);
  CHECK(a.bins == b.bins);
  CHECK(a.pairs == b.pairs);
}

TEST_CASE("segments that were sent again are told by their sequence, also beyond 2^32") {
  TrafficCounter counter{0, kMs};
  counter.add(segment(0xfffffff0U, 100));  // until 84
  counter.add(segment(84, 100));
  counter.add(segment(84, 100));   // again
  counter.add(segment(134, 100));  // half of it
  counter.add(segment(500, 100));  // a hole is no repetition
  counter.add(segment(1, 0));      // an acknowledgement neither
  const TrafficCounts total = counter.finish().total;
  CHECK(total.retransmitted_bytes == 150);
  CHECK(total.retransmitted_packets == 2);
}

TEST_CASE("bursts of a square wave have its duration, volume and gap") {
  const std::vector<double> series = square(1000, 100, 30);
  const std::vector<Burst> bursts = find_bursts(series, 1e-3, 1000, 5e-3);
  const BurstSummary summary = summarize(bursts);
  CHECK(summary.bursts == 10);
  CHECK(summary.duration_s == doctest::Approx(0.03));
  CHECK(summary.gap_s == doctest::Approx(0.07));
  CHECK(summary.bytes == 30000);
  CHECK(summary.peak_rate == doctest::Approx(1e6));
  CHECK(summary.duty_cycle == doctest::Approx(0.3 * 1000 / 930));
  // Gaps of 70 ms are merged if those of 80 ms are.
  CHECK(find_bursts(series, 1e-3, 1000, 0.08).size() == 1);
  CHECK(find_bursts(series, 1e-3, 1000, 0.07).size() == 10);
}

TEST_CASE("the period of bursts is found, although they consist of shorter ones") {
  std::vector<double> series = square(20000, 742, 300);
  for (std::size_t i = 0; i < series.size(); ++i)
    if (i % 30 >= 20) series[i] = 0;
  const auto period = find_period(series, 1e-3);
  REQUIRE(period);
  CHECK(std::abs(period->seconds - 0.742) < 0.03);  // a whole number of the shorter ones
  CHECK_FALSE(find_period(std::vector<double>(100, 5.0), 1e-3));
  CHECK_FALSE(find_period(std::vector<double>{}, 1e-3));
}

TEST_CASE("the period is finer than the bins") {
  std::vector<double> series;
  for (int i = 0; i < 4000; ++i) series.push_back(1 + std::sin(2 * std::numbers::pi * i / 33.4));
  CHECK(find_period(series, 0.01)->seconds == doctest::Approx(0.334).epsilon(1e-3));
}

TEST_CASE("envelope, backlog and peak to mean of a square wave are its closed forms") {
  const std::vector<double> series = square(1000, 100, 30);
  CHECK(envelope(series, 1) == 1000);
  CHECK(envelope(series, 30) == 30000);
  CHECK(envelope(series, 100) == 30000);
  CHECK(envelope(series, 130) == 60000);
  // At half of the peak's rate half of a burst waits at its end.
  CHECK(backlog(series, 1e-3, 0.5e6) == doctest::Approx(15000));
  CHECK(backlog(series, 1e-3, 1e6) == 0);
}

TEST_CASE("a series that comes later is found by its shift") {
  std::vector<double> a(500), b(500);
  for (std::size_t i = 0; i < 20; ++i) a[100 + i] = b[137 + i] = 1.0 + static_cast<double>(i % 7);
  const CrossCorrelation result = cross_correlation(a, b);
  CHECK(result.lag == 37);
  CHECK(result.highest == doctest::Approx(1).epsilon(1e-2));
  CHECK(cross_correlation(b, a).lag == -37);
  REQUIRE(result.by_lag.size() == 2 * 249 + 1);
  CHECK(result.by_lag[249 + 37] == doctest::Approx(result.highest));
  CHECK(result.by_lag[249] == doctest::Approx(result.at_zero));
  CHECK(cross_correlation(a, a).at_zero == doctest::Approx(1));
}

TEST_CASE("intervals of throughput are of as many windows as there are") {
  const std::vector<double> values{1, 2, 3, 4};
  const MeanOfWindows rate = mean_of_windows(values);
  CHECK(rate.mean == 2.5);
  CHECK(rate.half_width == doctest::Approx(1.96 * std::sqrt(5.0 / 3) / 2));
}

TEST_CASE("the regression finds the line that the data are on, with narrow intervals") {
  std::vector<RegressionRow> rows;
  for (int i = 0; i < 24; ++i) {
    const double size = 10.0 * (i % 4 + 1), noise = i % 3 == 0 ? 0.2 : -0.1;
    const std::string framework = i % 2 == 0 ? "horovod" : "tf";
    rows.push_back({"run", 3 + 6 * size + (framework == "tf" ? 20 : 0) + noise, size, {framework, "same"}});
  }
  const Regression fit = regress(rows, {"framework", "batch"});
  REQUIRE(fit.terms.size() == 3);
  CHECK(fit.terms[1].name == "model size");
  CHECK(fit.terms[1].value == doctest::Approx(6).epsilon(0.01));
  CHECK(fit.terms[1].low < 6);
  CHECK(fit.terms[1].high > 6);
  CHECK(fit.terms[2].name == "framework tf");
  CHECK(fit.terms[2].value == doctest::Approx(20).epsilon(0.02));
  CHECK(fit.r_squared > 0.999);
  CHECK_THROWS_AS(regress({rows[0], rows[1]}, {"framework", "batch"}), NoResultError);
}

TEST_CASE("what others tell already is no term of the regression") {
  std::vector<RegressionRow> rows;
  for (int i = 0; i < 8; ++i)
    rows.push_back({"run", 1.0 * i, 1.0 * (i % 4), {i % 2 == 0 ? "a" : "b", i % 2 == 0 ? "x" : "y"}});
  const Regression fit = regress(rows, {"framework", "topology"});
  CHECK(fit.dropped == std::vector<std::string>{"topology y"});
}

TEST_CASE("names of runs: batch of a worker, bare losses, old framework names") {
  const auto run = parse_run_name("tf_sync-mobilenetv2-adam-64-grpc_nccl-loss_0.1-ring");
  REQUIRE(run);
  CHECK(run->batch_per_worker() == 64);
  CHECK(run->loss_percent == 0.1);
  CHECK(parse_run_name("horovod-resnet50-adam-64-mpi-normal-ring")->batch_per_worker() == 256);
  CHECK(parse_run_name("kungfu_pairavg-resnet50-adam-64-kungfu-normal-CLIQUE")->batch_per_worker() == 256);
  CHECK(parse_run_name("tensorflow-resnet50-adam-64-grpc-0.5-ring")->framework == "tf_sync");
  CHECK(parse_run_name("kungfu-resnet50-adam-64-kungfu-2-TREE")->framework == "kungfu_ssgd");
  CHECK(parse_run_name("kungfu-resnet50-adam-64-kungfu-2-TREE")->loss_percent == 2);
  for (const char* name : {"", "results", "a-b-c-d-e-f-g", "a-b-c-64-e-lots-g", "tf-m-adam-64-grpc-normal-ring-x"})
    CHECK_FALSE(parse_run_name(name));
  CHECK(parse_setting_name("tf_sync-64-grpc_nccl-ring")->framework_backend() == "tf_sync_grpc_nccl");
  CHECK(parse_setting_name("horovod-512-gloo-ring")->batch_per_worker() == 2048);
  CHECK(parse_setting_name("kungfu_pairavg-64-kungfu")->topology == "pairs");
  for (const char* name : {"", "tf_sync", "tf_sync-x-grpc-ring", "tf_sync-64--ring", "a-64-b-c-d"})
    CHECK_FALSE(parse_setting_name(name));
  CHECK(find_studied_model("tum/mobilenet_v2")->name == "mobilenetv2");
  // The catalogue's sizes are of 1000 classes, not of those that were trained.
  CHECK(find_studied_model("mobilenetv2")->catalogue_bytes > find_studied_model("mobilenetv2")->trained_bytes);
}

TEST_CASE("steps of a log: batches in the order of time, and their span is the training's duration") {
  const std::string log =
      "Type,ID,Timestamp,Loss,Accuracy\nBatch,1,1619006586.5,2.1,0.2\nBatch,0,1619006586,2.3,0.1\n"
      "Epoch,0,1619006590,2.0,0.3\nBatch,0,1619006587,1.9,0.25\n";
  const StepLog steps = parse_step_log(log, "log", 0);
  REQUIRE(steps.steps.size() == 3);
  CHECK(steps.step_time_s() == doctest::Approx(0.5));
  CHECK(steps.duration_s() == doctest::Approx(1));
  CHECK(steps.steps[1].accuracy == 0.2);
  CHECK(parse_step_log(log, "log", 7200).steps[0].time_ns == 1619013786'000000000);
  CHECK_THROWS_AS(parse_step_log("Type,ID,Timestamp,Loss,Accuracy\nStep,1,1,1,1\n", "log", 0), InputError);
  for (const auto& [date, offset] : {std::pair{"1e300", -1e300}, std::pair{"-8e9", 1.6e10}})
    CHECK_THROWS_WITH_AS(
        parse_step_log("Type,ID,Timestamp,Loss,Accuracy\nBatch,0," + std::string{date} + ",2,0.1\n", "log", offset),
        doctest::Contains("expected seconds since 1970"), InputError);
}

TEST_CASE("data per step are those between the log's steps, whatever came before them") {
  TrafficCounter counter{0, kMs};
  counter.add(packet_at(0, 1, 2, 5000));  // start-up
  for (std::int64_t step = 0; step < 10; ++step)
    counter.add(packet_at(1000 * kMs + step * 100 * kMs + 50 * kMs, 1, 2, 300));
  RunTraffic run{.traffic = counter.finish()};
  for (std::int64_t step = 0; step <= 10; ++step) run.log.steps.push_back({.time_ns = 1000 * kMs + step * 100 * kMs});
  const TrafficStatistics statistics = traffic_statistics(run, {});
  CHECK(statistics.step_time_s == doctest::Approx(0.1));
  CHECK(statistics.training_s == doctest::Approx(1));
  CHECK(statistics.data_per_step.value() == doctest::Approx(300));
  CHECK(statistics.steps.back().cumulative_bytes == 8000);
  REQUIRE(statistics.scales_bins.size() > 3);
  // Most in 1 ms are the 5000 bytes, of 8000 in 1951 ms.
  CHECK(statistics.all.peak_to_mean[0] == doctest::Approx(5000.0 / 8000 * 1951));
}

TEST_CASE(
    "of a capture with an address for each packet the pairs with the most bytes are studied, and all have a rate") {
  constexpr int kPackets = 1000, kStudied = 400;  // 4 million bins, of 10,000 each
  TrafficCounter counter{0, kMs};
  for (int i = 0; i < kPackets; ++i)
    counter.add(packet_at(i * 10 * kMs, 1, static_cast<std::uint32_t>(10 + i), 100 + (i == 7 ? 900 : i / 100)));
  counter.add(packet_at(9'999 * kMs, 1, 9, 50));
  const RunTraffic run{.traffic = counter.finish()};
  REQUIRE(run.traffic.pairs.size() == kPackets + 1);
  const TrafficStatistics statistics = traffic_statistics(run, {});
  REQUIRE(statistics.pairs.size() == kStudied);
  CHECK(statistics.of_pair(0) == nullptr);  // 50 bytes
  REQUIRE(statistics.of_pair(8) != nullptr);
  CHECK(statistics.of_pair(8)->pair == 8);
  CHECK(statistics.of_pair(8)->envelope_bytes.back() == 1000);
  REQUIRE(statistics.of_pair(1000) != nullptr);
  REQUIRE(statistics.mean_rates.size() == run.traffic.pairs.size());
  CHECK(statistics.mean_rates[0] == doctest::Approx(5));    // 50 bytes in 10 s
  CHECK(statistics.mean_rates[8] == doctest::Approx(100));  // 1000
  CHECK(statistics.mean_rates[1000] == statistics.of_pair(1000)->mean_rate);
  CHECK(
      statistics.notes.front() ==
      "Bursts, period and windows are told of the 400 pairs with the most bytes; of 601 others only packets, bytes and "
      "the mean rate.");
}

TEST_CASE("series of all pairs are studied where packets are as many as in a capture of a training job") {
  TrafficCounter counter{0, kMs};
  for (int i = 0; i < 320'000; ++i)
    counter.add(packet_at(i % 10'000 * kMs, 1, static_cast<std::uint32_t>(10 + i % 450), 100));
  const RunTraffic run{.traffic = counter.finish()};
  CHECK(traffic_statistics(run, {}).pairs.size() == 450);  // 4.5 million bins, 5.12 million for the packets
}

}  // namespace rehearse
