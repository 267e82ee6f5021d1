#include "calibration/microbench/study_files.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "calibration/kernel_study.hpp"
#include "platforms/profile.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::microbench {

namespace {

Accelerator thread() {
  return {.name = "P, one thread",
          .peak_fp32 = FlopsPerSecond{64e9},
          .peak_fp16 = FlopsPerSecond{64e9},
          .memory_bandwidth = BytesPerSecond{10e9},
          .memory = Bytes{1 << 30},
          .multiprocessors = 1,
          .host_link = BytesPerSecond{10e9},
          .architecture = kernels::kProcessorArchitecture,
          .cores_per_multiprocessor = 32,
          .l2 = Bytes{1 << 20},
          .source = "test"};
}

}  // namespace

TEST_CASE("a device's entry reads as the device that was described") {
  const test::TemporaryFolder folder;
  CHECK_FALSE(read_catalog_entry(folder / "none.json").has_value());
  write_file(folder / "accelerators.json", to_json_text(catalog_entry(thread())));
  const auto read = read_catalog_entry(folder / "accelerators.json");
  REQUIRE(read.has_value());
  CHECK(read->name == thread().name);
  CHECK(read->peak_fp32 == thread().peak_fp32);
  CHECK(read->memory_bandwidth == thread().memory_bandwidth);
  CHECK(read->l2 == thread().l2);
  CHECK(kernels::gpu_of(*read, "test").clock == doctest::Approx(1e9));
  CHECK(kernels::gpu_of(*read, "test").is_processor());
  write_file(folder / "two.json", R"({"format": 1, "accelerators": {}})");
  CHECK(test::error_of([&] { (void)read_catalog_entry(folder / "two.json"); }) ==
        (folder / "two.json").string() +
            ": /accelerators: expected the one device that microbench measured; found an empty object");
}

/// Times that the formulas give: the fit finds them again.
TEST_CASE("the study of measured tables is one that calibrate reads, and finds the values of") {
  const test::TemporaryFolder folder;
  write_file(folder / "accelerators.json", to_json_text(catalog_entry(thread())));
  kernels::Values truth;
  truth.processor_products = {.launch = 5000, .batched = 700, .arithmetic = 1.3, .memory = 0.8};
  truth.processor_convolutions = {
      .launch = 30'000, .arithmetic = 1.2, .depthwise_weights = 5, .images = 1.5, .weights = 3};
  const kernels::Gpu processor = kernels::gpu_of(thread(), "test");
  MeasuredTables tables{folder.path};
  const std::vector<Case> cases = processor_cases(Extent::kQuick);
  for (const Case& of : cases) {
    const double time = kernels::time(of.kernel, processor, truth).value();
    tables.add(of, thread().name, {.time = time, .least = time, .samples = 5});
  }
  tables.save();
  write_file(folder / "study.json", to_json_text(kernel_study(tables, thread().name)));
  std::filesystem::create_directory(folder / "catalog");
  std::filesystem::rename(folder / "accelerators.json", folder / "catalog" / "accelerators.json");
  const std::filesystem::path own = folder / "catalog";
  const Catalog catalog{{CatalogFolders{own, own / "models", own / "profiles"}}};
  const KernelStudy study = load_kernel_study(folder / "study.json", catalog);
  CHECK(study.rows.size() > tables.rows() * 9 / 10);  // layouts of the same sizes are one row
  Json fitted = kernel_profile(study, "test");
  const auto value = [&](const char* kind, const char* name) {
    return fitted["kernels"][kind]["values"][name].get<double>();
  };
  CHECK(value("processor_products", "arithmetic") == doctest::Approx(1.3).epsilon(0.02));
  CHECK(value("processor_products", "launch") == doctest::Approx(5000).epsilon(0.02));
  CHECK(value("processor_convolutions", "depthwise_weights") == doctest::Approx(5).epsilon(0.02));
  CHECK(value("processor_convolutions", "images") == doctest::Approx(1.5).epsilon(0.02));
  CHECK(value("processor_streaming", "pooling") == doctest::Approx(truth.processor_streaming.pooling).epsilon(0.05));
}

TEST_CASE("what is no kernel is a table of its own") {
  CHECK(system_table(
            {{.what = "launch", .time = 2.5e-6}, {.what = "peer_copy", .partner = "1", .bytes = 4096, .time = 1}}) ==
        "what,partner,size_B,time_s,value\nlaunch,,0,2.5e-06,0\npeer_copy,1,4096,1,0\n");
}

TEST_CASE("the profile to start with has the dispatch of an operator, and nothing that a processor hides") {
  const Json json = profile_start(3.5e-6);
  const Framework framework = read_profile(JsonReader{json, "profile"}).framework("LibTorch");
  CHECK(framework.dispatch.value() == doctest::Approx(3.5e-6));
  CHECK(framework.step_overhead == Seconds{});
  CHECK(framework.composition == 1);
}

TEST_CASE("steps with pauses are a series of what they computed, and a step time with the pause") {
  // Of 12 ms the thread had 6, half of each period: 5 of the first 10 ms, 1 of the next; then 10 of 10 from 25 ms on.
  const std::vector<BusySpan> steps{{0, 0.012, 0.006}, {0.025, 0.035, 0.01}};
  const CsvTable series = parse_csv(paused_series(steps, 0.013, 0.01), "series");
  const std::vector<double> expected{0.5, 0.1, 0.5, 0.5};  // the last 8 ms are no whole period
  REQUIRE(series.row_count() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(series.row(i).number("time_s") == doctest::Approx(0.01 * static_cast<double>(i)));
    CHECK(series.row(i).number("gpu_utilization") == doctest::Approx(expected[i]));
  }
  CHECK(paused_step_time(steps, 0.013) == doctest::Approx(0.024));
  CHECK(paused_measurement("mlp", 0.024).at("step_time") == "24ms");
}

TEST_CASE("a pause of the host is the overhead of a step in a profile of its own") {
  const Json paused = paused_profile(profile_start(2e-6), 0.1);
  CHECK(paused.at("name") == kPausedProfileName);
  CHECK(paused.at("frameworks").at("otherwise").at("step_overhead") == "100ms");
  CHECK(paused.at("frameworks").at("otherwise").at("dispatch") == "2us");
}

}  // namespace rehearse::microbench
