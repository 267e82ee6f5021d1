#include "predictor/taught_settings.hpp"

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

namespace {

double& value(Dataset& dataset, std::size_t setting, const std::string& name) {
  const auto at = std::ranges::find(dataset.descriptors, name) - dataset.descriptors.begin();
  return dataset.settings[setting].descriptor[static_cast<std::size_t>(at)];
}

/// The samples of one setting.
TaughtSettings taught_in(const Dataset& dataset, std::int32_t setting) {
  std::vector<std::size_t> samples;
  for (std::size_t s = 0; s < dataset.samples.size(); ++s)
    if (dataset.samples[s].setting == setting) samples.push_back(s);
  return taught_settings(dataset, samples);
}

}  // namespace

TEST_CASE("a network that was taught one setting knows this one, whatever the model does to its rates") {
  Dataset dataset = test::synthetic_dataset(5);
  const TaughtSettings taught = taught_in(dataset, 0);
  CHECK(taught.count == 1);
  REQUIRE(taught.settings.size() == 1);
  const auto caution = [&] { return caution_of(taught, dataset, dataset.settings[0]); };
  CHECK(caution().text.empty());
  for (const char* name : {"gpu_peak_flops", "gpu_memory_bandwidth_Bps"}) value(dataset, 0, name) *= 0.8;
  for (const char* name : {"kernel_overhead_s", "dispatch_s"}) value(dataset, 0, name) /= 0.8;
  value(dataset, 0, "window_steps") = 7;
  dataset.settings[0].name = "the same by another name";
  CHECK(caution().text.empty());
  CHECK(!caution().is_other);
}

TEST_CASE("another GPU, link, number of workers, strategy or sampling period is another setting") {
  const Dataset dataset = test::synthetic_dataset(5);
  const TaughtSettings taught = taught_in(dataset, 0);
  for (const char* name :
       {"gpu_memory_B", "multiprocessors", "gpu_peak_flops", "nic_Bps", "pcie_Bps", "latency_s", "workers",
        "worker_machines", "servers", "is_colocated", "is_synchronous", "is_all_reduce", "sampling_period_s",
        "gradient_bytes_ratio", "staleness_bound", "other_workers", "server_time_per_byte_s", "peak_efficiency"}) {
    CAPTURE(name);
    Dataset other = dataset;
    value(other, 0, name) += value(other, 0, name) + 1;
    const SettingCaution caution = caution_of(taught, other, other.settings[0]);
    CHECK(caution.is_other);
    CHECK(caution.text.find(name) != std::string::npos);
    CHECK(caution.text.find("it was taught \"a synchronous\" and sees nothing of a cluster: ") == 0);
  }
  CHECK(caution_of(taught, dataset, dataset.settings[1]).is_other);
}

TEST_CASE("several settings are a mean, and what is not known is said") {
  Dataset dataset = test::synthetic_dataset(5);
  std::vector<std::size_t> all(dataset.samples.size());
  for (std::size_t s = 0; s < all.size(); ++s) all[s] = s;
  const TaughtSettings several = taught_settings(dataset, all);
  CHECK(several.count == 4);
  CHECK(
      caution_of(several, dataset, dataset.settings[2]).text ==
      "it was taught \"a synchronous\", \"a asynchronous\", \"b synchronous\", and 1 more, which it cannot tell apart: "
      "it predicts a mean of them");
  CHECK(!caution_of(several, dataset, dataset.settings[2]).is_other);
  CHECK(caution_of({}, dataset, dataset.settings[0]).text.find("does not say which GPU") != std::string::npos);

  const TaughtSettings one = taught_in(dataset, 0);
  Dataset unknown = dataset;
  unknown.settings[0].descriptor.assign(unknown.descriptors.size(), 0.0);
  CHECK(caution_of(one, unknown, unknown.settings[0]).text.empty());  // of the same name
  unknown.settings[0].name = "v100";
  CHECK(caution_of(one, unknown, unknown.settings[0]).text ==
        "nothing says in which cluster: predicted is as in \"a synchronous\", which it was taught");
  const TaughtSettings of_file = taught_in(unknown, 0);
  CHECK(caution_of(of_file, unknown, unknown.settings[0]).text.empty());
  CHECK(caution_of(of_file, dataset, dataset.settings[0]).text ==
        "nothing says which GPU, links and workers it was taught in \"v100\": predicted is as there");
  CHECK(!caution_of(of_file, dataset, dataset.settings[0]).is_other);
}

TEST_CASE("of very many settings the first are kept, and all are counted") {
  Dataset dataset = test::synthetic_dataset(5);
  std::vector<std::size_t> all;
  for (std::int32_t s = 0; s < 100; ++s) {
    dataset.settings.push_back(dataset.settings[0]);
    dataset.settings.back().name = "setting " + std::to_string(s);
    value(dataset, dataset.settings.size() - 1, "nic_Bps") = 1e9 + s;
    all.push_back(dataset.samples.size());
    dataset.samples.push_back({.graph = 0, .setting = static_cast<std::int32_t>(dataset.settings.size()) - 1});
  }
  const TaughtSettings taught = taught_settings(dataset, all);
  CHECK(taught.count == 100);
  CHECK(taught.settings.size() == kMostTaught);
  const SettingCaution caution = caution_of(taught, dataset, dataset.settings[0]);
  CHECK(!caution.is_other);
  CHECK(caution.text.find("it was taught 100 settings, such as \"setting 0\"") == 0);
}

TEST_CASE("taught settings go through a file, and a damaged one is refused") {
  const Dataset dataset = test::synthetic_dataset(5);
  const TaughtSettings taught = taught_in(dataset, 1), read = taught_settings(to_torch(taught), "f");
  CHECK(read.count == 1);
  CHECK(read.descriptors == taught.descriptors);
  REQUIRE(read.settings.size() == 1);
  CHECK(read.settings[0].name == "a asynchronous");
  CHECK(read.settings[0].group == "a");
  CHECK(read.settings[0].descriptor == taught.settings[0].descriptor);
  TaughtSettings damaged = taught;
  damaged.settings[0].descriptor.pop_back();
  CHECK_THROWS_WITH_AS(
      taught_settings(to_torch(damaged), "f"),
      ("f: settings: expected " + std::to_string(taught.descriptors.size()) + " finite numbers of each").c_str(),
      InputError);
  damaged = taught;
  damaged.count = 0;
  CHECK_THROWS_AS(taught_settings(to_torch(damaged), "f"), InputError);
  CHECK_THROWS_AS(taught_settings(TorchDict{}, "f"), InputError);
}

}  // namespace rehearse
