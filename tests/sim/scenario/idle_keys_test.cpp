#include "sim/scenario/idle_keys.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/scenario/peak_speed.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

/// Whether a warning of CM-DARE's four workers and one server with these changes has the words.
bool is_said(const Changes& changes, const std::string& words) {
  const std::vector<std::string> warnings = test::resolved(test::shipped_scenario(changes)).warnings;
  return std::ranges::any_of(warnings, [&](const std::string& w) { return w.find(words) != std::string::npos; });
}

const Changes kKernels{
    {"/workload/model", "resnet50"},
    {"/workload/batch_per_worker", "8"},
    {"/training/strategy", R"({"kind": "all_reduce"})"},
    {"/cluster/groups", R"([{"name": "w", "role": "worker", "instance": "p3.2xlarge", "region": "us-east-1"}])"},
    {"/calibration", "kernels"}};

Changes with(Changes changes, const std::string& pointer, const std::string& value) {
  changes.emplace_back(pointer, value);
  return changes;
}

}  // namespace

TEST_CASE("a framework that the profile has no values of is said to change nothing") {
  CHECK_FALSE(is_said(kKernels, "which changes nothing"));
  CHECK(is_said(with(kKernels, "/workload/framework", "no such framework"),
                "no values of framework \"no such framework\""));
  CHECK_FALSE(is_said(with(kKernels, "/workload/framework", "Megatron-LM"), "which changes nothing"));
}

TEST_CASE("how an optimizer is implemented is said to change nothing where its update is not computed of kernels") {
  const std::string words = "\"optimizer_implementation\" in the workload changes nothing: ";
  const Changes fused = with(kKernels, "/workload/optimizer_implementation", "fused");
  CHECK_FALSE(is_said(fused, words));
  CHECK(is_said({{"/workload/optimizer_implementation", "fused"}}, words + "servers update the variables"));
  CHECK(is_said(with(fused, "/calibration", "ideal"), words + "updates are not computed of kernels"));
  CHECK(is_said(with(fused, "/cluster/groups/0/step_time", R"({"time": "40ms"})"),
                words + "the update is a part of the measured step time"));
  CHECK(is_said(with(fused, "/training/strategy",
                     R"({"kind": "all_reduce", "offload": {"optimizer": 1}, "sharding": "optimizer"})"),
                words + "the host updates the variables"));
}

TEST_CASE("rules for machines that come and go are said to change nothing where none does") {
  const std::string words = "no machine of this scenario fails";
  CHECK_FALSE(is_said({}, words));
  CHECK(is_said({{"/training/recovery", R"({"restart_time": "100s"})"}}, words));
  CHECK_FALSE(is_said({{"/training/recovery", R"({"give_up_after": "100h"})"}}, words));
  CHECK_FALSE(is_said({{"/training/recovery", R"({"restart_time": "100s"})"},
                       {"/cluster/groups/1/faults", R"({"machine_mtbf": "10h"})"}},
                      words));
  CHECK(is_said(
      {{"/training/recovery", R"({"uses_notice": true})"}, {"/cluster/groups/1/faults", R"({"machine_mtbf": "10h"})"}},
      "faults come without notice"));
  CHECK(is_said({{"/cluster/start", "2020-01-15T08:00:00Z"}}, "\"start\" of the cluster changes nothing"));
}

TEST_CASE("a zone without prices of its own or a pool, and a data set without epochs, are said to change nothing") {
  const std::string words = "\"zone\" of group \"w\", \"us-east-1c\", changes nothing";
  const Changes in_zone = with(kKernels, "/cluster/groups/0/zone", "us-east-1c");
  CHECK_FALSE(is_said(kKernels, "\"zone\""));
  CHECK_FALSE(is_said(with(kKernels, "/cluster/groups/0/zone", "us-east-1"), "\"zone\""));
  CHECK(is_said(in_zone, words));
  const Changes priced =
      with(with(in_zone, "/cluster/prices", "aws-2019-12"), "/cluster/start", "2020-01-15T08:00:00Z");
  CHECK(is_said(priced, words));  // on demand
  CHECK_FALSE(is_said(with(priced, "/cluster/groups/0/market", "spot"), words));
  CHECK_FALSE(is_said(
      with(with(in_zone, "/cluster/groups/0/market", "spot"), "/cluster/groups/0/spot_pool", "bamboo/p3"), words));

  const Changes sized = with(kKernels, "/workload/samples_per_epoch", "50000");
  CHECK(is_said(sized, "\"samples_per_epoch\" in the workload changes nothing"));
  const std::string training = R"({"strategy": {"kind": "all_reduce"}, "epochs": 1})";
  CHECK_FALSE(is_said(with(sized, "/training", training), "samples_per_epoch"));
}

TEST_CASE("an interval by Young and Daly without losses is said to write no checkpoint") {
  const std::string rule = R"({"interval": "young_daly", "fixed_time": "1s", "rate": "1GBps"})";
  CHECK(is_said({{"/training/checkpoint", rule}}, "no checkpoint is written"));
  CHECK_FALSE(is_said({{"/training/checkpoint", rule},
                       {"/training/recovery", R"({"lost_worker": "restart"})"},
                       {"/cluster/groups/1/faults", R"({"machine_mtbf": "10h"})"}},
                      "no checkpoint is written"));
}

TEST_CASE("what servers and checkpoints hold at the least is compared with the memory of machines") {
  // VGG-16: 138 357 544 parameters; fp32 weights and two moments of Adam are 12 bytes of each: 1.66 GB.
  const auto said = [](const Changes& changes, double bytes, std::size_t group) {
    Scenario scenario = test::resolved(test::shipped_scenario(changes));
    scenario.groups[group].instance.memory = Bytes{std::llround(bytes)};
    const std::vector<std::string> sentences = exceeded_host_memory(scenario);
    return sentences.empty() ? std::string{} : sentences.front();
  };
  const Changes vgg{{"/workload/model", "vgg16"}, {"/workload/optimizer", "adam"}, {"/workload/batch_per_worker", "4"}};
  CHECK(said(vgg, 1660290527, 0).find("variables and the optimizer's states") != std::string::npos);
  CHECK(said(vgg, 1660290528, 0).empty());
  CHECK(said(with(vgg, "/cluster/groups/0/count", "2"), 0.9e9, 0).empty());
  CHECK_FALSE(is_said(vgg, "host memory exceeded"));
  // Two machines: each has copies of half of all states, and of its partner's.
  const auto copied = [&](const std::string& rule, double bytes) {
    return said({{"/workload/model", "vgg16"},
                 {"/workload/batch_per_worker", "4"},
                 {"/workload/optimizer", "adam"},
                 {"/training/strategy", R"({"kind": "all_reduce"})"},
                 {"/cluster/groups",
                  R"([{"name": "w", "role": "worker", "instance": "p3.2xlarge", "region": "us-east-1", "count": 2}])"},
                 {"/training/checkpoint", R"({"every_steps": 10, "fixed_time": "1s", "rate": "1GBps", )" + rule + "}"}},
                bytes, 0);
  };
  CHECK(copied(R"("mode": "asynchronous")", 1660290527).find("copies of checkpoints") != std::string::npos);
  CHECK(copied(R"("mode": "asynchronous")", 1660290528).empty());
  CHECK(copied(R"("mode": "asynchronous", "writers": "machines")", 0.84e9).empty());
  CHECK_FALSE(copied(R"("in_memory": {"every_steps": 5})", 1.6e9).empty());
  CHECK(copied(R"("mode": "synchronous")", 0.1e9).empty());
}

TEST_CASE("no step takes less than its arithmetic at the peak of the GPU") {
  const Scenario scenario = test::resolved(test::shipped_scenario(kKernels));
  const double operations = scenario.workload.training_flops().value() / scenario.batch;
  const double peak = scenario.groups[0].accelerator->peak_fp32.value();
  CHECK(peak_samples_per_s(scenario) == doctest::Approx(peak / operations * 2.25).epsilon(1e-6));
  CHECK(is_said(with(kKernels, "/cluster/groups/0/step_time", R"({"time": "1ms"})"), "no step of this model"));
  CHECK_FALSE(is_said(with(kKernels, "/cluster/groups/0/step_time", R"({"time": "40ms"})"), "no step of this model"));
  CHECK(impossible_speed(scenario, 0.99 * peak_samples_per_s(scenario)).empty());
  CHECK(impossible_speed(scenario, 2.2 * peak_samples_per_s(scenario)).find("are 2.2 times") != std::string::npos);
  CHECK(impossible_speed(scenario, 2.2 * peak_samples_per_s(scenario), 8).empty());
}

TEST_CASE("a stated step is that of the scenario's own training") {
  Changes lone{
      {"/workload/model", "gpt2"},
      {"/workload/batch_per_worker", "2"},
      {"/workload/precision", "fp16"},
      {"/training/strategy", R"({"kind": "all_reduce"})"},
      {"/cluster/groups",
       R"([{"name": "w", "role": "worker", "instance": "p3.2xlarge", "region": "us-east-1", "step_time": {"time": "300ms"}}])"},
      {"/training/steps", "10"},
      {"/calibration", "kernels"}};
  const auto step = [](const Changes& changes) {
    return test::simulated(test::shipped_scenario(changes), [](Scenario&) {}).at("iteration_time_s").get<double>();
  };
  CHECK(step(lone) == doctest::Approx(0.3).epsilon(1e-6));
  CHECK(step(with(lone, "/workload/recompute", "full")) == doctest::Approx(0.3).epsilon(1e-6));
  CHECK(step(with(lone, "/workload/lora", R"({"rank": 8})")) == doctest::Approx(0.3).epsilon(1e-6));
}

}  // namespace rehearse
