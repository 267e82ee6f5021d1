// rehearse traffic as its user meets it.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

namespace {

Json traffic_of(const std::string& input) {
  const Outcome outcome = rehearse_with("traffic " + input + " --json");
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return parse_json(outcome.out, "traffic");
}

std::string tum(const std::string& name) { return kRoot + "/scenarios/tum/" + name + ".json"; }

constexpr double kResnet50 = 4.0 * 25'557'032;  // bytes of its parameters

}  // namespace

TEST_CASE("a ring of four sends 1.5 S by each worker, 6 S in all, a step; its period is the step's time") {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  REQUIRE(
      rehearse_with("simulate " + tum("tensorflow-ring") + " --set /training/steps=12 --quiet -o " + out).exit_code ==
      0);
  const Json traffic = traffic_of(out);
  const auto payload = traffic["total"]["payload_B"].get<double>(), of_run = traffic["run_payload_B"].get<double>();
  constexpr double kFrames = 1 + 9.0 / 16384;  // gRPC's
  CHECK(of_run > 12 * 6 * kResnet50 * kFrames);
  CHECK(of_run < 12 * 6 * kResnet50 * kFrames * 1.001);  // and 60 B of each message
  // Each of the gradients' 24 messages in a step is asked for with 260 B.
  CHECK(std::fmod(payload - of_run, 12 * 24 * 260) == 0);
  CHECK(payload - of_run > 0);
  double sent_by_first = 0;
  for (const Json& pair : traffic["matrix"])
    if (pair["from"] == "10.0.0.1") sent_by_first += pair["payload_B"].get<double>();
  CHECK(sent_by_first == doctest::Approx(12 * 1.5 * kResnet50 * kFrames).epsilon(4e-3));
  CHECK(traffic["period_s"].get<double>() == doctest::Approx(traffic["step_time_s"].get<double>()).epsilon(0.01));
  // Headers and acknowledgements are (66 + 33) bytes for each 1448.
  CHECK(traffic["data_per_step_B"].get<double>() ==
        doctest::Approx(6 * kResnet50 * kFrames * (1 + 99.0 / 1448)).epsilon(4e-3));
}

TEST_CASE("a tree of four uses six directed pairs; the run's captures have the run's traffic") {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string(), captures = (folder / "captures").string();
  REQUIRE(rehearse_with("simulate " + tum("kungfu-tree") +
                        " --set /training/steps=3 --set /workload/model=mobilenet_v2" + " --quiet -o " + out +
                        " --pcap " + captures)
              .exit_code == 0);
  const Json run = traffic_of(out), captured = traffic_of(captures);
  CHECK(run["matrix"].size() == 6);
  for (const char* key : {"total", "hosts", "matrix", "flows", "flow_size_B", "duration_s", "period_s", "peak_to_mean",
                          "throughput", "mean_rate_Bps"})
    CHECK_MESSAGE(run[key] == captured[key], key);
  CHECK(run["total"]["payload_B"] == run["run_payload_B"]);
  if (std::system("command -v tshark >/dev/null 2>&1 && command -v mergecap >/dev/null 2>&1") != 0) return;
  const std::string all = (folder / "all.pcapng").string(), lines = (folder / "lines").string();
  REQUIRE(std::system(("mergecap -w " + all + " " + captures + "/*.pcap").c_str()) == 0);
  // Whatever tshark finds wrong with a segment would be counted here.
  REQUIRE(std::system(("tshark -r " + all + " -q -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE" +
                       " -z expert -z io,stat,0 2>/dev/null >" + lines)
                          .c_str()) == 0);
  const std::string text = read_file(lines, kMiB);
  CHECK(text.find("Warn") == std::string::npos);
  CHECK(text.find("Error") == std::string::npos);
  CHECK(text.find(" " + run["total"]["size_B"].dump() + " ") != std::string::npos);
  CHECK(text.find(" " + run["total"]["packets"].dump() + " ") != std::string::npos);
}

TEST_CASE("what a lossy run sends again is the same in its traffic, its captures, tables of them, and tshark's count") {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string(), captures = (folder / "captures").string();
  const Outcome simulated = rehearse_with(
      "simulate " + tum("tensorflow-ring") + " --set /training/steps=2 --set /workload/model=mobilenet_v2" +
      " --set /cluster/network/packet_loss=0.01 --quiet --json -o " + out + " --pcap " + captures);
  REQUIRE(simulated.exit_code == 0);
  const Json run = traffic_of(out), captured = traffic_of(captures);
  for (const char* key : {"total", "hosts", "matrix", "flows", "duration_s"})
    CHECK_MESSAGE(run[key] == captured[key], key);
  const Json again = run["total"]["retransmitted_B"];
  CHECK(again.get<std::int64_t>() > 0);
  CHECK(again == parse_json(simulated.out, "summary")["retransmitted_B"]);
  if (std::system("command -v tshark >/dev/null 2>&1 && command -v mergecap >/dev/null 2>&1") != 0) return;
  const std::string all = (folder / "all.pcapng").string(), table = (folder / "table.csv").string();
  REQUIRE(std::system(("mergecap -w " + all + " " + captures + "/*.pcap").c_str()) == 0);
  std::string fields;
  for (const char* field :
       {"frame.time", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "frame.len", "tcp.seq", "tcp.len"})
    fields += std::string{" -e "} + field;
  REQUIRE(std::system(
              ("TZ=UTC tshark -r " + all + " -T fields -E header=y" + fields + " 2>/dev/null >" + table).c_str()) == 0);
  const Json tabled = traffic_of(table);
  CHECK(tabled["matrix"] == run["matrix"]);
  CHECK(tabled["total"] == run["total"]);
  // Retransmissions are notes: warnings and errors would be what tshark finds wrong besides.
  const std::string lines = (folder / "lines").string();
  REQUIRE(
      std::system(("tshark -r " + all + " -q -z expert -z io,stat,0,tcp.analysis.retransmission 2>/dev/null >" + lines)
                      .c_str()) == 0);
  const std::string text = read_file(lines, kMiB);
  CHECK(text.find("Warn") == std::string::npos);
  CHECK(text.find("Error") == std::string::npos);
  CHECK_MESSAGE(text.find(" " + run["total"]["retransmitted_packets"].dump() + " ") != std::string::npos, text);
}

TEST_CASE("traffic writes tables and a page that needs no other file; several runs give a regression") {
  const TemporaryFolder folder;
  std::string runs;
  for (int i = 0; i < 3; ++i) {
    const std::string out = (folder.path / ("run" + std::to_string(i))).string();
    const char* models[] = {"mobilenet_v2", "resnet50", "resnet101"};
    REQUIRE(rehearse_with("simulate " + tum("kungfu-star") +
                          " --set /training/steps=3 --set /workload/model=" + models[i] + " --quiet -o " + out)
                .exit_code == 0);
    runs += " " + out;
  }
  const std::string out = (folder / "traffic").string();
  CHECK(rehearse_with("traffic " + (folder / "run0").string() + " --quiet -o " + out).exit_code == 0);
  for (const char* name : {"hosts.csv", "matrix.csv", "bins.csv.gz", "flows.csv", "flow_sizes.csv", "flow_load.csv",
                           "bursts.csv", "series.csv", "scales.csv", "backlog.csv", "throughput.csv", "steps.csv"})
    CHECK_MESSAGE(std::filesystem::exists(std::filesystem::path{out} / name), name);
  const std::string page = read_file(out + "/traffic.html", kMiB * 16);
  CHECK(page.find(R"("kind":"heat")") != std::string::npos);
  const Json several = traffic_of(runs);
  REQUIRE(several["regressions"].size() == 2);
  // A star sends 6 S as well, with headers and acknowledgements.
  CHECK(several["regressions"][1]["terms"][1]["value_MB"].get<double>() ==
        doctest::Approx(6 * (1 + 99.0 / 1448)).epsilon(1e-3));
}

TEST_CASE("the captures of a run do not differ from it; two topologies do, pair by pair") {
  const TemporaryFolder folder;
  const std::string tree = (folder / "tree").string(), captures = (folder / "captures").string();
  const std::string star = (folder / "star").string();
  const std::string options = " --set /training/steps=3 --set /workload/model=mobilenet_v2 --quiet -o ";
  REQUIRE(rehearse_with("simulate " + tum("kungfu-tree") + options + tree + " --pcap " + captures).exit_code == 0);
  REQUIRE(rehearse_with("simulate " + tum("kungfu-star") + options + star).exit_code == 0);
  const Json same = parse_json(rehearse_with("diff " + captures + " " + tree + " --json").out, "diff");
  CHECK(same["all"]["correlation"].get<double>() == doctest::Approx(1));
  CHECK(same["flow_sizes_ks"] == 0.0);
  REQUIRE(same["pairs"].size() == 6);
  for (const Json& pair : same["pairs"]) {
    CHECK(pair["a_size_B"] == pair["b_size_B"]);
    CHECK(pair["lag_s"] == 0.0);
    CHECK(pair["burst_sizes_ks"] == 0.0);
  }
  // The tree joins 2 and 4, the star 1 and 4; both join 1 with 2 and 3: in both directions.
  const Json other = parse_json(rehearse_with("diff " + tree + " " + star + " --traffic --json").out, "diff");
  CHECK(other["pairs"].size() == 8);
  const std::string out = (folder / "diff").string();
  CHECK(rehearse_with("diff " + captures + " " + star + " -o " + out).out.find("Kolmogorov-Smirnov") !=
        std::string::npos);
  const std::string page = read_file(out + "/diff.html", kMiB * 16);
  for (const char* text : {"A, measured", "B, simulated", R"("kind":"heat")", "Cross-correlation", "Bytes of a burst",
                           "Bytes of a directed flow", "flow sizes, KS distance"})
    CHECK_MESSAGE(page.find(text) != std::string::npos, text);
}

TEST_CASE("a sweep's combinations are simulated for their traffic, equal ones once, and drawn by setting") {
  const TemporaryFolder folder;
  const auto sweep = [](const std::string& losses) {
    return R"({"format": 1, "scenario": ")" + tum("tensorflow-ring") +
           R"(", "set": {"/name": "tf_sync-64-grpc-ring", "/training/steps": 12},
           "grid": {"/workload/model": ["tum/mobilenet_v2", "tum/resnet50"], "/cluster/network/packet_loss": )" +
           losses + "}}";
  };
  folder.write("all.json", sweep("[0, 0.02]"));
  folder.write("lossy.json", sweep("[0.02]"));
  const std::string out = (folder / "out").string(), run = (folder / "run").string();
  const Outcome outcome = rehearse_with("traffic " + (folder / "all.json").string() + " " +
                                        (folder / "lossy.json").string() + " --quiet --json -o " + out);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json runs = parse_json(outcome.out, "traffic")["runs"];
  REQUIRE(runs.size() == 4);
  CHECK(runs[0]["framework"] == "tf_sync_grpc");
  CHECK(runs[1]["loss_percent"] == 2.0);
  CHECK(runs[1]["retransmitted_B"].get<double>() > 0);
  // The same of a run that is written and read again.
  REQUIRE(rehearse_with("simulate " + tum("tensorflow-ring") + " --set /training/steps=12 --set " +
                        "/workload/model=tum/mobilenet_v2 --set /name=tf_sync-64-grpc-ring --quiet -o " + run)
              .exit_code == 0);
  const Json again = parse_json(rehearse_with("traffic " + run + " " + run + " --json").out, "traffic")["runs"][0];
  for (const char* key : {"framework", "model", "batch_named", "packets", "size_B", "flows", "pairs", "duration_s",
                          "step_time_s", "data_per_step_B"})
    CHECK_MESSAGE(runs[0][key] == again[key], key);
  const std::string page = read_file(out + "/traffic.html", kMiB * 16);
  for (const char* text : {"Traffic matrices", "Rates over time", "Flow sizes", "Duration against packet loss",
                           "tf_sync_grpc, 64, ring", "tum/mobilenet_v2", R"("kind":"heat")"})
    CHECK_MESSAGE(page.find(text) != std::string::npos, text);
  folder.write("broken.json", "{}");
  check_refused("traffic " + (folder / "broken.json").string(), 2, "broken.json");
}

TEST_CASE("what tshark -T json writes is traffic, also if a file is called as scenarios are") {
  const TemporaryFolder folder;
  folder.write("packets.json",
               R"([{"_source": {"layers": {"frame": {"frame.time_epoch": "1.5", "frame.len": "154"}}}}])");
  CHECK(traffic_of((folder / "packets.json").string())["total"]["size_B"] == 154);
}

TEST_CASE("frameworks differ in what they send besides gradients, and more where they agree for longer") {
  const TemporaryFolder folder;
  const auto setting = [](const std::string& name, const std::string& messaging, int batch) {
    return R"({"/name": ")" + name + R"(", "/cluster/network/messaging": ")" + messaging +
           R"(", "/workload/batch_per_worker": )" + std::to_string(batch) + "}";
  };
  folder.write("sweep.json", R"({"format": 1, "scenario": ")" + tum("horovod-ring") +
                                 R"(", "set": {"/training/steps": 12}, "list": [)" +
                                 setting("tf_sync-64-grpc-ring", "grpc", 64) + "," +
                                 setting("tf_sync-64-grpc_nccl-ring", "nccl-sockets", 64) + "," +
                                 setting("horovod-64-mpi-ring", "horovod-mpi", 256) + "," +
                                 setting("horovod-512-mpi-ring", "horovod-mpi", 2048) + "," +
                                 setting("horovod-64-gloo-ring", "horovod-gloo", 256) +
                                 R"(], "grid": {"/workload/model": ["tum/mobilenet_v2", "tum/resnet50"]}})");
  const Outcome outcome = rehearse_with("traffic " + (folder / "sweep.json").string() + " --quiet --json");
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json runs = parse_json(outcome.out, "traffic")["runs"];
  std::map<std::string, double> sent;  // of ResNet-50, of each setting
  for (const Json& run : runs)
    if (run["name"].get<std::string>().ends_with("tum/resnet50"))
      sent[run["framework"].get<std::string>() + std::to_string(run["batch_named"].get<int>())] =
          run["data_per_step_B"].get<double>();
  REQUIRE(sent.size() == 5);
  CHECK(sent["tf_sync_grpc64"] > sent["tf_sync_grpc_nccl64"]);
  CHECK(sent["horovod_mpi64"] > sent["tf_sync_grpc_nccl64"]);
  CHECK(sent["horovod_gloo64"] > sent["horovod_mpi64"]);
  CHECK(sent["horovod_mpi512"] > sent["horovod_mpi64"] + 1e5);
  // All of it is a little beside the gradients.
  for (const auto& [name, bytes] : sent) CHECK(bytes < 1.05 * sent["tf_sync_grpc_nccl64"]);
}

TEST_CASE("packets of machines that exchange by RDMA are counted as TCP's, which is said") {
  const TemporaryFolder folder;
  const std::string set =
      " --set /workload/model=resnet50 --set /training/steps=3 --set /cluster/groups/0/count=2 --set "
      "/cluster/groups/0/instance=";
  for (const auto& [instance, is_said] :
       {std::pair{"hgx-h200", true}, std::pair{"p3.16xlarge", false}, std::pair{"p4d.24xlarge", true}}) {
    CAPTURE(instance);
    const std::string out = (folder / instance).string(),
                      command = "simulate " + kRoot + "/scenarios/dgx.json" + set + instance;
    const Outcome run = rehearse_with(command + " -o " + out + " --pcap " + out + "-pcap");
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    const std::string warning =
        "exchange by RDMA: packets, headers and acknowledgements are counted as TCP would send them";
    CHECK((run.err.find(warning) != std::string::npos) == is_said);
    CHECK((rehearse_with("traffic " + out).err.find(warning) != std::string::npos) == is_said);
    CHECK((rehearse_with("traffic " + out + " " + out).err.find(warning) != std::string::npos) == is_said);
    CHECK(rehearse_with(command).err.find(warning) == std::string::npos);
  }
}

TEST_CASE("what is no traffic is refused with one line") {
  const TemporaryFolder folder;
  check_refused("traffic", 2, "INPUT");
  check_refused("traffic " + (folder / "none").string(), 2, "none: cannot read");
  check_refused("traffic " + folder.path.string(), 2, "expected a run of simulate -o, captures");
  folder.write("text.txt", "text\n");
  check_refused("traffic " + (folder / "text.txt").string(), 2,
                "expected a capture (pcap, pcapng), the packets of tshark");
  folder.write("ek.json", "{\"index\": {}}\n{\"timestamp\": \"1\", \"layers\": {}}\n");
  check_refused("traffic " + (folder / "ek.json").string(), 2, "found packets for Elasticsearch (tshark -T ek)");
  folder.write("all.xml", "<?xml version=\"1.0\"?>\n<pdml version=\"0\">\n");
  check_refused("traffic " + (folder / "all.xml").string(), 2, "found packets in XML");
  folder.write("list.csv", "\"No.\",\"Time\",\"Source\",\"Destination\",\"Protocol\",\"Length\",\"Info\"\n");
  check_refused("traffic " + (folder / "list.csv").string(), 2, "found a list of packets without ports, as Wireshark");
  check_refused("traffic " + kScenario + " --bin 0s", 2, "--bin: expected a time of at least");
  check_refused("traffic " + kScenario + " --link-rate 10", 2, "--link-rate: expected a rate with a unit");
  check_refused("simulate " + kScenario + " --pcap x --runs 3", 2, "--pcap: expected no --runs");
}

}  // namespace rehearse
