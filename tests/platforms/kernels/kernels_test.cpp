#include "platforms/kernels/kernels.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "platforms/catalog.hpp"
#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::kernels {

namespace {

Json default_values(Class kind) {
  Json result = Json::object();
  const std::vector<double> values = values_of(Values{}, kind);
  const std::vector<ValueBounds> bounds = bounds_of(kind);
  for (std::size_t i = 0; i < bounds.size(); ++i) result[bounds[i].name] = values[i];
  return result;
}

std::string refusal(const Json& json) {
  try {
    (void)read_model(JsonReader{json, "p.json"});
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

Gpu gpu_in_catalog(const char* name) {
  const std::string& root = source_folder();
  const Catalog catalog{{{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  const Json nobody;
  return gpu_of(read_accelerator(name, catalog.accelerator(name, JsonReader{nobody, "test"})), "test");
}

}  // namespace

TEST_CASE("the clock of a GPU is that of its peak in fp32") {
  CHECK(gpu_in_catalog("A100").clock == doctest::Approx(1.41e9).epsilon(1e-3));
  CHECK(gpu_in_catalog("V100").clock == doctest::Approx(1.38e9).epsilon(1e-3));
  CHECK(gpu_in_catalog("H100").clock == doctest::Approx(1.98e9).epsilon(1e-3));
  CHECK(gpu_in_catalog("A100").peak(Precision::kTf32) == 156e12);
  CHECK(gpu_in_catalog("V100").peak(Precision::kTf32) == 14.13e12);  // has none: as fp32
}

TEST_CASE("memory with error correction in its own bits delivers five sixths") {
  Accelerator board{.architecture = "Turing", .memory_kind = "GDDR6"};
  CHECK(delivered_share(board) == doctest::Approx(0.95));
  board.has_ecc = true;
  CHECK(delivered_share(board) == doctest::Approx(0.95 * 5 / 6));
  board.memory_kind = "HBM2";
  CHECK(delivered_share(board) == doctest::Approx(0.95));
  board.architecture = "Pascal";
  CHECK(delivered_share(board) == doctest::Approx(0.76));
}

TEST_CASE("FLOPs take the energy of the units that multiply") {
  const BoardPowerValues values;
  const Gpu volta = gpu_in_catalog("V100"), amd = gpu_in_catalog("MI210");
  const auto energy = [](const Gpu& gpu, Precision precision) {  // pJ
    return 1e12 * gpu.flop_energies[static_cast<std::size_t>(precision)];
  };
  CHECK(energy(volta, Precision::kFp32) == doctest::Approx(values.vector_flop * 12 / 16));
  CHECK(energy(volta, Precision::kTf32) == doctest::Approx(values.vector_flop * 12 / 16));  // has none: as fp32
  CHECK(energy(volta, Precision::kFp16) == doctest::Approx(values.matrix_flop));
  CHECK(energy(amd, Precision::kFp32) == doctest::Approx(2 * values.matrix_flop));  // on matrix units
}

TEST_CASE("a GPU without cores or L2 has no times of kernels") {
  const Accelerator bare{.name = "X", .peak_fp32 = FlopsPerSecond{1e12}, .multiprocessors = 10};
  CHECK_THROWS_WITH_AS((void)gpu_of(bare, "s.json: /gpu"),
                       "s.json: /gpu: GPU \"X\" does not state \"cores_per_multiprocessor\", which the times of its "
                       "kernels depend on",
                       InputError);
}

TEST_CASE("an architecture has its own values, or those of all") {
  Json json;
  for (const auto& [name, kind] : kClasses) json[name]["values"] = default_values(kind);
  Json own = default_values(Class::kMatrixProduct);
  own["launch"] = 1234;
  json["products_reduced"]["by_architecture"]["Hopper"] = own;
  const Model model = read_model(JsonReader{json, "p.json"});
  const auto launch = [&](const char* architecture) {
    return model.of(Gpu{.architecture = architecture}).products_reduced.launch;
  };
  CHECK(launch("Hopper") == 1234);
  CHECK(launch("Ampere") == json["products_reduced"]["values"]["launch"].get<double>());
  const Product product{.m = 64, .n = 64, .k = 64, .precision = Precision::kBf16};
  const Gpu h100 = gpu_in_catalog("H100"), a100 = gpu_in_catalog("A100");
  CHECK(time(product, h100, model.of(h100)) == plan_product(product, h100, model.of(h100).products_reduced).time);
  CHECK(time(product, a100, model.of(a100)) >= roofline(product, a100));
}

TEST_CASE("mistakes in values of kernels are named with their place") {
  Json json;
  json["products_fp32"]["values"] = default_values(Class::kVectorProduct);
  CHECK(refusal(json) == "accepted");
  json["products_fp32"]["values"]["arithmetic"] = 0.5;
  CHECK(refusal(json).find("p.json: /products_fp32/values/arithmetic: expected a value from 1") == 0);
  json["products_fp32"]["values"].erase("arithmetic");
  CHECK(refusal(json).find("arithmetic") != std::string::npos);
  json["products_fp32"]["values"] = default_values(Class::kVectorProduct);
  json["produts"] = 1;
  CHECK(refusal(json).find("unknown key \"produts\"") != std::string::npos);
}

}  // namespace rehearse::kernels
