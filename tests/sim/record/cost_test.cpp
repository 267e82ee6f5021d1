// What runs cost and how well they use what they rent, worked out by hand.

#include "sim/record/cost.hpp"

#include <doctest/doctest.h>

#include "sim/record/efficiency.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/peak_speed.hpp"
#include "sim/scenario/site.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::number_at;
using test::summary_with_result;
using test::timed_scenario;

/// Steps of 3 ms on a machine of 36 USD/h, a cent a second, whose provider has a rule.
Json rented(int steps, const Json& provider) {
  Json scenario = timed_scenario(1, {{"1000B"}}, {{"kind", "all_reduce"}});
  scenario["cluster"]["groups"][0]["instance"].update({{"usd_per_hour_on_demand", 36}, {"provider", provider}});
  scenario["training"]["steps"] = steps;
  return scenario;
}

bool warns_of_billing(const Json& summary) {
  return summary["warnings"].dump().find("billed beyond the run") != std::string::npos;
}

const Json kHourly{{"name", "rack"}, {"granularity", "1h"}, {"source", "test"}};

}  // namespace

TEST_CASE("a run below what a provider bills at least says so, and what its time is worth") {
  for (const auto& [provider, billed_s] : {std::pair{Json("aws"), 60.0}, {kHourly, 3600.0}}) {
    const Json summary = summary_with_result(rented(1000, provider));  // 3 s
    CHECK(number_at(summary, "cost_usd") == doctest::Approx(billed_s / 100));
    CHECK(number_at(summary, "cost_usd_by_the_moment") == doctest::Approx(0.03));
    CHECK(number_at(summary, "usd_per_million_samples") == doctest::Approx(0.01 * 3e-3 * 1e6));
    CHECK(warns_of_billing(summary));
  }
}

TEST_CASE("a run of hours, and one that is billed by the moment, have one cost") {
  for (const auto& [steps, provider] : {std::pair{1'200'000, Json("aws")}, {1'200'000, kHourly}, {1000, Json("own")}}) {
    const Json summary = summary_with_result(rented(steps, provider));
    CHECK(number_at(summary, "cost_usd") == doctest::Approx(steps * 3e-5));
    CHECK(number_at(summary, "cost_usd_by_the_moment") == doctest::Approx(steps * 3e-5));
    CHECK(!warns_of_billing(summary));
  }
}

TEST_CASE("the ends of a cost's interval are what is billed, never less than the least") {
  const Scenario scenario = test::resolved(rented(1000, "aws"));
  const std::vector<Machine> machines = Site{scenario}.machines;
  const std::pair speeds{0.5, 2.0};
  const auto of = [&](double seconds) { return training_cost(scenario, machines, Seconds{seconds}, speeds).value(); };
  CHECK(of(20).usd == doctest::Approx(0.6));
  CHECK(of(20).interval->first == doctest::Approx(0.6));
  CHECK(of(20).interval->second == doctest::Approx(0.6));  // of 40 s
  CHECK(of(50).interval->second == doctest::Approx(1.0));
  CHECK(of(7200).interval->first == doctest::Approx(36));
  CHECK(of(7200).interval->second == doctest::Approx(144));
}

TEST_CASE("tokens per second and utilization follow from the samples, those of stated layers do not") {
  const Json net = test::small_training(2, 1, {{"kind", "all_reduce"}});
  const Json summary = summary_with_result(net);
  const Json& structure = net["workload"]["model"]["structure"];
  CHECK(summary["gpus"] == 2);
  CHECK(number_at(summary, "tokens_per_s") ==
        doctest::Approx(number_at(summary, "samples_per_s") * structure["sequence_length"].get<double>()));
  // Half as many tokens of a sample are fewer than half of its FLOPs, as attention goes by their square.
  CHECK(number_at(summary, "mfu") > 0);
  CHECK(number_at(summary, "mfu") < 1);
  Json of_a_batch = timed_scenario(1, {{"1000B"}}, {{"kind", "all_reduce"}});
  of_a_batch["workload"]["model"]["structure"]["batch"] = 32;
  of_a_batch["workload"]["batch_per_worker"] = 32;
  const Json stated = summary_with_result(of_a_batch);
  CHECK(stated["tokens_per_s"].is_null());
  CHECK(stated["mfu"].is_null());
  CHECK(stated["usd_per_million_samples"].is_null());
}

TEST_CASE("a model's FLOPs are six times its parameters a token, and attention") {
  // Llama 3 8B: 8.03e9 parameters, 0.525e9 of them a table that is looked up; causal
  // attention 6 * layers * width * s of a token; norms, activations and the softmax are a hundredth more.
  Json scenario = timed_scenario(8, {{"4B"}}, {{"kind", "all_reduce"}});
  scenario["workload"] = {{"model", "llama3_8b"}, {"batch_per_worker", 1}, {"precision", "fp16"}};
  scenario["training"]["memory_check"] = "warn";
  const Scenario resolved = test::resolved(scenario);
  const int tokens = tokens_of_sample(resolved);
  const double flops = model_flops_of_sample(resolved) / tokens;
  CHECK(flops == doctest::Approx(6 * (8.030e9 - 0.5253e9) + 6.0 * 32 * 4096 * tokens).epsilon(0.025));
  // However it is split, and whatever is computed again.
  scenario["training"]["strategy"]["tensor"] = {{"degree", 8}};
  scenario["workload"]["recompute"] = "full";
  CHECK(model_flops_of_sample(test::resolved(scenario)) == doctest::Approx(flops * tokens));
}

TEST_CASE("scores that attention in one kernel computes again are no FLOPs of the model") {
  Json scenario = timed_scenario(8, {{"4B"}}, {{"kind", "all_reduce"}});
  scenario["workload"] = {{"batch_per_worker", 1}, {"precision", "fp16"}};
  const int tokens = 131072;
  scenario["workload"]["model"] = {{"format", 1}, {"source", "Llama 3 8B"}};
  scenario["workload"]["model"]["structure"] = {{"family", "transformer"},
                                                {"layers", 32},
                                                {"width", 4096},
                                                {"heads", 32},
                                                {"kv_heads", 8},
                                                {"feed_forward", 14336},
                                                {"gated_feed_forward", true},
                                                {"vocabulary", 128256},
                                                {"sequence_length", tokens},
                                                {"rms_norm", true},
                                                {"joint_projection", false},
                                                {"tied_embedding", false},
                                                {"fused_attention", true},
                                                {"causal", true},
                                                {"normalisation", "pre"},
                                                {"head", "language_model"}};
  scenario["training"]["memory_check"] = "warn";
  const double flops = model_flops_of_sample(test::resolved(scenario)) / tokens;
  // 1.03e11 of a token in attention beside 4.5e10 in products of weights: with the scores again 12 % more.
  CHECK(flops == doctest::Approx(6 * (8.030e9 - 0.5253e9) + 6.0 * 32 * 4096 * tokens).epsilon(0.01));
}

}  // namespace rehearse
