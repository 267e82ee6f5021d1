#include "sim/plan/measured_sizes.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// ResNet-50 in fp16 on p3.16xlarge with Horovod's ring, as horovod/horovod#779 ran it.
Json p3_machines() {
  return Json::parse(R"({
    "format": 1, "name": "ResNet-50 fp16 on p3.16xlarge",
    "workload": { "model": "resnet50", "batch_per_worker": 256, "optimizer": "momentum", "precision": "fp16" },
    "cluster": {
      "groups": [ { "name": "m", "role": "worker", "count": 1, "region": "r", "instance": "p3.16xlarge" } ],
      "network": { "links": [ { "from": "r", "to": "r", "latency": "30us", "source": "assumption" } ] } },
    "training": { "strategy": { "kind": "all_reduce", "algorithm": "ring", "bucket_size": "64MiB" }, "steps": 8,
                  "warmup_steps": 2 }
  })");
}

SizesDiagnosis diagnosed(const Json& scenario, const std::vector<MeasuredSize>& sizes) {
  return *diagnose_sizes({.scenario = scenario, .file_name = source_folder() + "/scenarios/test.json", .sizes = sizes},
                         test::shipped_catalog(), 2);
}

}  // namespace

TEST_CASE("speeds of several sizes tell computation from scaling: Horovod on 1 to 128 V100") {
  const SizesDiagnosis diagnosis = diagnosed(p3_machines(), read_measured_sizes({"1=872", "16=12828", "128=89783"}));
  REQUIRE(diagnosis.rows.size() == 3);
  // With the step of one GPU as it was measured one GPU is simulated as fast as it is.
  CHECK(*diagnosis.rows[0].by_own_step == doctest::Approx(872).epsilon(1e-3));
  CHECK(*diagnosis.compute == doctest::Approx(872 / *diagnosis.rows[0].simulated));
  CHECK(diagnosis.rows[2].measured_efficiency == doctest::Approx(89783 / (128 * 872.0)));  // 80 %
  CHECK(*diagnosis.rows[2].simulated_efficiency > 0.85);
  CHECK(
      diagnosis.scaling_verdict.starts_with("scaling: worse than simulated: 128 GPUs reach 80.4 % of 128 times the "
                                            "speed of one GPU, simulated 87.1 %; it falls behind "
                                            "from 128 GPUs on"));
  const SizesDiagnosis worse = diagnosed(p3_machines(), read_measured_sizes({"1=872", "16=10000", "128=55000"}));
  CHECK(worse.scaling_verdict.starts_with("scaling: worse than simulated: 128 GPUs reach 49.3 %"));
  REQUIRE(worse.largest);
  CHECK(worse.largest->finding != Finding::kExplained);
  CHECK(worse.largest->verdict.find("as fast as simulated") == std::string::npos);
  // Eight times what sixteen GPUs can be, of one GPU's speed.
  const SizesDiagnosis unlikely = diagnosed(p3_machines(), read_measured_sizes({"1=100", "16=12828"}));
  CHECK(unlikely.scaling_verdict.starts_with("scaling: implausible: 16 GPUs reach 801.8 %"));
  CHECK(unlikely.scaling_verdict.find("better") == std::string::npos);
  REQUIRE(unlikely.largest);
  CHECK(unlikely.largest->finding == Finding::kImplausible);
  REQUIRE(diagnosis.largest);
  for (const Explanation& explanation : diagnosis.largest->explanations) CHECK(explanation.mechanism != "gpu");
}

TEST_CASE("a stated global batch is that of every size") {
  Json scenario = p3_machines();
  scenario["training"]["strategy"]["global_batch"] = 256 * 32;
  const auto speed = [](const Json& of) {
    const Json summary = test::simulated(of);
    REQUIRE_FALSE(summary.contains("error"));
    return summary["samples_per_s"].get<double>();
  };
  const SizesDiagnosis sizes = diagnosed(scenario, {{8, 5000}, {32, 20000}});
  for (const SizeRow& row : sizes.rows) {
    Json alone = scenario;
    alone["cluster"]["groups"][0]["count"] = row.measured.gpus / 8;
    CHECK(*row.simulated == doctest::Approx(speed(alone)).epsilon(1e-6));
  }
}

TEST_CASE("measurements that are the simulation's own miss nothing, and a slow GPU is not blamed on the exchange") {
  const SizesDiagnosis simulated = diagnosed(p3_machines(), {{1, 872}, {16, 12828}});
  std::vector<MeasuredSize> own, slower;
  for (const SizeRow& row : simulated.rows) own.push_back({row.measured.gpus, *row.simulated});
  const SizesDiagnosis same = diagnosed(p3_machines(), own);
  CHECK(*same.compute == doctest::Approx(1));
  CHECK(same.compute_verdict == "computation: one GPU is as fast as simulated");
  CHECK(same.scaling_verdict.starts_with("scaling: as simulated: "));
  CHECK(same.largest->finding == Finding::kExplained);
  slower.push_back({1, own.front().samples_per_s / 2});
  slower.push_back({16, own.back().samples_per_s / 2});
  slower.back().samples_per_s = *diagnosed(p3_machines(), slower).rows.back().by_own_step;  // of such a GPU
  const SizesDiagnosis half = diagnosed(p3_machines(), slower);
  CHECK(half.compute_verdict.starts_with("computation: one GPU is 50.0 % slower than simulated"));
  CHECK(half.scaling_verdict.starts_with("scaling: as simulated: "));
}

TEST_CASE("without a speed of one GPU the computation is not judged") {
  const SizesDiagnosis diagnosis = diagnosed(p3_machines(), {{8, 6679}, {16, 12828}});
  CHECK(!diagnosis.compute);
  CHECK(diagnosis.compute_verdict.starts_with("computation: not known"));
  CHECK(diagnosis.rows[1].measured_efficiency == doctest::Approx(12828 / (2 * 6679.0)));
}

TEST_CASE("a model that one GPU cannot hold scales from the smallest size that holds it, and nobody asks for one GPU") {
  const Json scenario = Json::parse(R"({
    "format": 1, "name": "Llama 3 8B", "calibration": "kernels",
    "workload": { "model": "llama3_8b", "batch_per_worker": 1, "optimizer": "adam", "precision": "bf16" },
    "cluster": {
      "groups": [ { "name": "m", "role": "worker", "count": 2, "region": "r", "instance": "p5.48xlarge" } ],
      "network": { "links": [ { "from": "r", "to": "r", "latency": "15us", "source": "assumption" } ] } },
    "training": { "strategy": { "kind": "all_reduce", "algorithm": "ring", "tensor": { "degree": 8 } }, "steps": 2 }
  })");
  const SizesDiagnosis diagnosis = diagnosed(scenario, {{1, 0.9}, {8, 5}, {16, 9}});
  CHECK(!diagnosis.can_run_on_one_gpu);
  CHECK(diagnosis.reference().measured.gpus == 8);
  CHECK(diagnosis.compute_verdict.starts_with("computation: not known, as one GPU was not simulated: "));
  CHECK(diagnosis.compute_verdict.find("memory exceeded") != std::string::npos);
  CHECK(diagnosis.rows[2].measured_efficiency == doctest::Approx(0.9));
  REQUIRE(diagnosis.rows[2].simulated_efficiency);
  CHECK(*diagnosis.rows[2].simulated_efficiency ==
        doctest::Approx(*diagnosis.rows[2].simulated / *diagnosis.rows[1].simulated / 2));
  CHECK(diagnosis.scaling_verdict.find("16 GPUs reach 90.0 % of 2 times the speed of 8 GPUs") != std::string::npos);
  CHECK(diagnosis.largest->verdict.find("--measured") == std::string::npos);
  const SizesDiagnosis without = diagnosed(scenario, {{8, 5}, {16, 9}});
  CHECK(without.compute_verdict == "computation: not known, as no speed of one GPU was measured");
  const SizesDiagnosis lone = diagnosed(scenario, {{1, 0.9}, {8, 5}});
  CHECK(lone.scaling_verdict == "scaling: not known, as 8 GPUs alone of the measured sizes were simulated");
}

TEST_CASE("the log of a training on so many GPUs is the speed of that size") {
  const test::TemporaryFolder folder;
  std::string log = "world_size: 8\n";
  for (int step = 1; step <= 12; ++step)
    log += "iteration " + std::to_string(step) +
           "/ 12 | elapsed time per iteration (ms): " + (step <= 10 ? "9000" : "500") + " | global batch size: 64 |\n";
  const std::string file = folder.write("train.log", log).string();
  const std::vector<MeasuredSize> sizes = read_measured_sizes({"8=" + file});
  REQUIRE(sizes.size() == 1);
  CHECK(sizes[0].gpus == 8);
  CHECK(sizes[0].samples_per_s == doctest::Approx(128));
  CHECK(sizes[0].batch == 64);
  CHECK(sizes[0].remarks.size() == 1);
  CHECK(read_measured_sizes({"8=" + file}, 0)[0].samples_per_s == doctest::Approx(64 / 9.0));
  CHECK_THROWS_WITH_AS((void)read_measured_sizes({"16=" + file}), (file + ": logs 8 as gpus; stated are 16").c_str(),
                       InputError);
}

TEST_CASE("sizes that cannot be are refused") {
  CHECK_THROWS_WITH_AS((void)read_measured_sizes({"8:6679"}), doctest::Contains("8:6679"), InputError);
  CHECK_THROWS_WITH_AS(
      (void)read_measured_sizes({"8=fast"}),
      "--measured: expected GPUS=SAMPLES_PER_S, such as 8=6679, GPUS=LOG or a CSV file; found \"8=fast\"", InputError);
  CHECK_THROWS_WITH_AS((void)read_measured_sizes({"0=6679"}), "--measured 0=6679: expected 1 to 1000000 GPUs; found 0",
                       InputError);
  CHECK_THROWS_WITH_AS((void)read_measured_sizes({"8=0"}),
                       "--measured 8=0: expected 1e-12 to 1e12 samples per second; found 0", InputError);
  CHECK_THROWS_WITH_AS((void)read_measured_sizes({"8=5", "8=6"}),
                       "--measured: expected each number of GPUs once; found 8 twice", InputError);
  const SizesDiagnosis diagnosis = diagnosed(p3_machines(), {{1, 872}, {12, 9000}});
  CHECK(diagnosis.rows[1].error == "expected sizes of whole machines of 8 GPUs; found 12");
}

}  // namespace rehearse
