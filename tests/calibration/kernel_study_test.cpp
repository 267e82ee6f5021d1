#include "calibration/kernel_study.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "platforms/board_power.hpp"
#include "platforms/profile.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/statistics.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const Catalog& catalog() {
  static const std::string root = source_folder();
  static const Catalog shipped{
      {{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  return shipped;
}

const Json kStudy = Json::parse(R"({ "format": 1, "kind": "kernels", "leave_out": "architecture", "tables": [
    { "file": "rows.csv", "kernel": "product", "precision": "bf16", "gpu": { "column": "gpu", "names": {
        "a": "A100", "b": "A100 80GB", "h": "H100", "l": "L4" } },
      "sizes": { "m": "m", "n": "n", "k": 512 }, "time": { "column": "time", "unit": "us" } }] })");

std::string study_refusal(const Json& study, const std::string& rows) {
  const test::TemporaryFolder folder;
  folder.write("rows.csv", rows);
  const auto file = folder.write("study.json", study.dump());
  try {
    (void)load_kernel_study(file, catalog());
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

/// Rows whose times follow the formula with `values`.
std::string exact_rows(const kernels::Values& values) {
  CsvWriter csv{{"gpu", "m", "n", "time"}};
  const Json nobody;
  for (const auto& [key, name] : kStudy["tables"][0]["gpu"]["names"].items()) {
    const auto gpu = kernels::gpu_of(
        read_accelerator(name, catalog().accelerator(name.get<std::string>(), JsonReader{nobody, "test"})), "test");
    for (const std::int64_t m : {1, 30, 100, 500, 2000, 9000})
      for (const std::int64_t n : {64, 300, 1024, 5000, 20000}) {
        const kernels::Product product{.m = m, .n = n, .k = 512, .precision = kernels::Precision::kBf16};
        csv.row({key, m, n, kernels::time(product, gpu, values).value() * 1e6});
      }
  }
  return csv.text();
}

}  // namespace

TEST_CASE("rows of one kernel on one GPU count once, with their median; architectures are left out whole") {
  const test::TemporaryFolder folder;
  folder.write("rows.csv", "gpu,m,n,time\na,1,2,3\na,1,2,5\na,1,2,10\nb,1,2,4\nh,1,2,7\nz,1,2,7\n");
  const KernelStudy study = load_kernel_study(folder.write("study.json", kStudy.dump()), catalog());
  REQUIRE(study.rows.size() == 3);
  CHECK(study.rows[0].measured == doctest::Approx(5e-6));
  CHECK(study.rows[0].line == 2);
  CHECK(std::get<kernels::Product>(study.rows[0].kernel).k == 512);
  CHECK(study.folds[study.rows[0].gpu] == study.folds[study.rows[1].gpu]);
  CHECK(study.folds[study.rows[0].gpu] != study.folds[study.rows[2].gpu]);
}

TEST_CASE("GPUs that follow the formula with the same values are predicted from each other") {
  kernels::Values values;
  values.products_reduced.launch = 3000;
  values.products_reduced.arithmetic = 1.1;
  values.products_reduced.memory = 1.3;
  values.products_reduced.sharpness = 3;
  const test::TemporaryFolder folder;
  folder.write("rows.csv", exact_rows(values));
  const KernelStudy study = load_kernel_study(folder.write("study.json", kStudy.dump()), catalog());
  const KernelPredictions predictions = cross_validate(study, {});
  std::vector<double> errors;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const double measured = study.rows[i].measured;
    errors.push_back(std::abs(predictions.model[i] / measured - 1));
    CHECK(predictions.roofline[i] > 0);
    CHECK(predictions.nearest[i] > 0);
  }
  CHECK(median(errors) < 0.01);
  CHECK(percentile(errors, 90) < 0.05);
  CHECK(predictions.values.size() == 3);  // Ampere, Hopper, Ada
  CHECK(predictions.values.at("Hopper").products_reduced.arithmetic == doctest::Approx(1.1).epsilon(0.02));
}

TEST_CASE("gap and floor of a harness are found, and hosts that launch more slowly than others") {
  const kernels::Values values;
  const Json nobody;
  CsvWriter csv{{"gpu", "rows", "columns", "time"}};
  for (const auto& [key, name] : kStudy["tables"][0]["gpu"]["names"].items()) {
    const auto gpu = kernels::gpu_of(
        read_accelerator(name, catalog().accelerator(name.get<std::string>(), JsonReader{nobody, "test"})), "test");
    const double host = key == "h" ? 1.6 : key == "l" ? 1.5 : 1;
    for (const std::int64_t rows : {1, 10, 100, 1000, 2000, 5000, 10'000, 30'000})
      for (const std::int64_t columns : {100, 700, 1000, 1500, 3000, 5000, 7000}) {
        const kernels::Streaming kernel{.kind = kernels::StreamingKind::kBinary, .rows = rows, .columns = columns};
        const Harness harness{.gap = host * 15e-6, .floor = host * 30e-6};
        csv.row({key, rows, columns, harness.measured(kernels::time(kernel, gpu, values).value()) * 1e6});
      }
  }
  Json json = kStudy;
  Json& table = json["tables"][0];
  table["kernel"] = "binary";
  table["precision"] = "fp32";
  table["harness"] = "eager";
  table["sizes"] = {{"rows", "rows"}, {"columns", "columns"}};
  const test::TemporaryFolder folder;
  folder.write("rows.csv", csv.text());
  const KernelStudy study = load_kernel_study(folder.write("study.json", json.dump()), catalog());
  const KernelPredictions predictions = cross_validate(study, {});
  std::vector<double> without, with;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    if (study.gpus[study.rows[i].gpu].name != "H100") continue;
    without.push_back(std::abs(predictions.model[i] / study.rows[i].measured - 1));
    with.push_back(std::abs(predictions.with_host[i] / study.rows[i].measured - 1));
  }
  CHECK(median(without) > 0.2);
  CHECK(median(with) < 0.02);
  // What is to be expected of a host: the geometric mean of those that were seen, of two A100 and the L4.
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    if (study.gpus[study.rows[i].gpu].name == "H100" && std::get<kernels::Streaming>(study.rows[i].kernel).rows == 1)
      CHECK(predictions.model[i] / 30e-6 == doctest::Approx(std::cbrt(1.5)).epsilon(0.01));
  // The kernel's values do not make up for a slow host.
  CHECK(predictions.values.at("Hopper").elementwise.memory == doctest::Approx(values.elementwise.memory).epsilon(0.01));
}

TEST_CASE("the profile of a study of kernels can be read as one") {
  kernels::Values values;
  values.products_reduced.arithmetic = 1.12;
  const test::TemporaryFolder folder;
  folder.write("rows.csv", exact_rows(values));
  const KernelStudy study = load_kernel_study(folder.write("study.json", kStudy.dump()), catalog());
  const Json profile = kernel_profile(study, "test");
  const kernels::Model model = kernels::read_model(JsonReader{profile, "p.json"}.child("kernels"));
  CHECK(model.otherwise.products_reduced.arithmetic == doctest::Approx(1.12).epsilon(0.02));
  CHECK(profile["kernels"]["products_reduced"]["intervals"]["arithmetic"].size() == 2);
}

TEST_CASE("a study that names a profile is predicted by its values as they are, without a second GPU") {
  const test::TemporaryFolder folder;
  folder.write("rows.csv",
               "kind,m,n,time\ndata,4096,8192,30\nweight,4096,8192,50\nweight,128,64,3\ndata,4096,8192,40\n");
  Json json = kStudy;
  json["leave_out"] = "nothing";
  json["profile"] = "kernels";
  json["tables"][0]["gpu"] = "H200";
  json["tables"][0]["groups"] = {"kind"};
  const KernelStudy study = load_kernel_study(folder.write("study.json", json.dump()), catalog());
  REQUIRE(study.gpus.size() == 1);
  // The same product in two groups is two rows; in one group it is one, of the median.
  REQUIRE(study.rows.size() == 3);
  std::map<std::string, std::vector<double>> measured;
  for (const KernelRow& row : study.rows) measured[row.groups.at(0)].push_back(row.measured);
  CHECK(measured.at("kind data") == std::vector<double>{35e-6});
  CHECK(measured.at("kind weight").size() == 2);
  const KernelPredictions predictions = predict_by_profile(study);
  REQUIRE(predictions.model.size() == 3);
  CHECK(predictions.nearest.empty());
  const Json nobody;
  const Profile profile = read_profile(catalog().profile("kernels", JsonReader{nobody, "test"}));
  REQUIRE(study.gpus[0].architecture == "Hopper");
  for (std::size_t i = 0; i < 3; ++i) {
    const kernels::Values& hopper = profile.kernels->by_architecture.at("Hopper");
    CHECK(predictions.model[i] == kernels::time(study.rows[i].kernel, study.gpus[0], hopper).value());
    CHECK(predictions.roofline[i] <= predictions.model[i]);
  }
  json["leave_out"] = "gpu";
  CHECK(study_refusal(json, "kind,m,n,time\ndata,1,2,3\n").find("/leave_out: expected \"nothing\" and a \"profile\"") !=
        std::string::npos);
  json["leave_out"] = "nothing";
  json["profile"] = "nccl";
  CHECK(study_refusal(json, "kind,m,n,time\ndata,1,2,3\n")
            .find("/profile: expected a profile with a section \"kernels\"") != std::string::npos);
}

TEST_CASE(
    "the power of a product with its time given: at rest, what it computes and moves, at most the board's limit") {
  Json json = kStudy;
  json["leave_out"] = "gpu";
  json["tables"][0]["power"] = "watts";
  const test::TemporaryFolder folder;
  // An H100's: one that takes long draws what it does at rest and with all multiprocessors, one at 900 Tflops the limit.
  const double long_s = 1e3, limited_s = 2.0 * 8192 * 8192 * 512 / 900e12;
  folder.write("rows.csv", "gpu,m,n,time,watts\nh,8192,8192," + std::to_string(long_s * 1e6) + ",300\nh,8192,8191," +
                               std::to_string(limited_s * 1e6) + ",650\nh,8192,8191," +
                               std::to_string(limited_s * 1e6) + ",690\nh,8192,8191," +
                               std::to_string(limited_s * 1e6) + ",670\n");
  const KernelStudy study = load_kernel_study(folder.write("study.json", json.dump()), catalog());
  REQUIRE(study.rows.size() == 2);
  const std::vector<double> watts = predict_power(study);
  for (std::size_t i = 0; i < 2; ++i) {
    const bool is_long = study.rows[i].measured > 1;
    CHECK(*study.rows[i].power == (is_long ? 300 : 670));
    const BoardPowerValues values;
    const double at_rest = values.rest_stacked * 700 + values.active * 1e-12 * 4 / 16 * 66.9e12;
    CHECK(watts[i] == doctest::Approx(is_long ? at_rest : 700).epsilon(is_long ? 0.02 : 1e-9));
  }
  CHECK(study_refusal(
            [&] {
              Json wrong = json;
              wrong["tables"][0]["kernel"] = "softmax";
              wrong["tables"][0]["sizes"] = {{"rows", "m"}, {"columns", "n"}};
              return wrong;
            }(),
            "gpu,m,n,time,watts\nh,1,2,7,1\n")
            .find("/tables/0/power: expected none but of products") != std::string::npos);
  CHECK(study_refusal(json, "gpu,m,n,time,watts\nh,1,2,7,-1\n").find("expected a power above 0") != std::string::npos);
}

TEST_CASE("mistakes in a study of kernels are named with their place") {
  const std::string rows = "gpu,m,n,time\na,1,2,3\n";
  CHECK(study_refusal(kStudy, rows) == "accepted");
  const auto changed = [&](const char* pointer, const Json& value) {
    Json study = kStudy;
    study[Json::json_pointer{pointer}] = value;
    return study_refusal(study, rows);
  };
  CHECK(changed("/leave_out", "row")
            .find("/leave_out: expected \"gpu\", \"multiprocessor\", \"architecture\" or \"nothing\"; found \"row\"") !=
        std::string::npos);
  CHECK(changed("/tables/0/gpu/names/a", "A1000").find("/tables/0/gpu/names/a: unknown accelerator \"A1000\"") !=
        std::string::npos);
  CHECK(changed("/tables/0/precision", "b16").find("did you mean \"bf16\"?") != std::string::npos);
  CHECK(changed("/tables/0/sizes/k", 0).find("/tables/0/sizes/k: expected") != std::string::npos);
  CHECK(changed("/tables/0/sizes/m", "mm").find("\"mm\"") != std::string::npos);
  CHECK(changed("/tables/0/where", Json{{"gpu", {"h"}}}).find("/tables/0: no row of") != std::string::npos);
  CHECK(study_refusal(kStudy, "gpu,m,n,time\na,0,2,3\n").find("rows.csv:2: column \"m\": expected 1 to 1e9") !=
        std::string::npos);
  CHECK(study_refusal(kStudy, "gpu,m,n,time\na,1,2,-3\n").find("rows.csv:2: column \"time\": expected a time") !=
        std::string::npos);
  Json transformer = kStudy;
  transformer["tables"][0].update({{"kernel", "transformer_training"}, {"sizes", Json::object()}});
  for (const char* size :
       {"sequence", "layers", "hidden", "feed_forward", "vocabulary", "activation_passes", "is_causal"})
    transformer["tables"][0]["sizes"][size] = 1'000'000;
  transformer["tables"][0]["sizes"].update({{"batch", "m"}, {"heads", "n"}});
  CHECK(study_refusal(transformer, "gpu,m,n,time\na,1000,1000000,3\n") == "accepted");
  CHECK(study_refusal(transformer, "gpu,m,n,time\na,10000000,1000000,3\n")
            .ends_with(
                "rows.csv:2: column \"time\": expected a batch, a sequence and heads whose product is at most 1e15"));
}

TEST_CASE("products in bf16 on a GPU that no fit has seen") {
  const KernelStudy study =
      load_kernel_study(source_folder() + "/scenarios/studies/kernels-bf16-products.json", catalog());
  const KernelPredictions predictions = cross_validate(study, {});
  for (std::size_t gpu = 0; gpu < study.gpus.size(); ++gpu) {
    std::vector<double> all, longer;
    for (std::size_t i = 0; i < study.rows.size(); ++i) {
      if (study.rows[i].gpu != gpu) continue;
      all.push_back(100 * std::abs(predictions.model[i] / study.rows[i].measured - 1));
      if (study.rows[i].measured > 20e-6) longer.push_back(all.back());
    }
    CAPTURE(study.gpus[gpu].name);
    CHECK(median(all) < 15);
    CHECK(percentile(all, 90) < 40);
    CHECK(median(longer) < 12);
    CHECK(percentile(longer, 90) < 28);
  }
}

}  // namespace rehearse
