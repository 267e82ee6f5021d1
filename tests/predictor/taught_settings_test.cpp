#include "predictor/taught_settings.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse {

namespace {

/// Changes what a setting says at a place of its scenario.
void set(Dataset& dataset, std::size_t setting, const std::string& place, const Json& value) {
  Json scenario = Json::parse(dataset.settings[setting].provenance);
  scenario[Json::json_pointer{place}] = value;
  dataset.settings[setting].provenance = scenario.dump();
}

/// The samples of one setting.
TaughtSettings taught_in(const Dataset& dataset, std::int32_t setting) {
  std::vector<std::size_t> samples;
  for (std::size_t s = 0; s < dataset.samples.size(); ++s)
    if (dataset.samples[s].setting == setting) samples.push_back(s);
  return taught_settings(dataset, samples);
}

}  // namespace

TEST_CASE("a network that was taught one setting knows this one, whatever its profile and its name") {
  Dataset dataset = test::synthetic_dataset(5);
  const TaughtSettings taught = taught_in(dataset, 0);
  CHECK(taught.count == 1);
  REQUIRE(taught.settings.size() == 1);
  const auto caution = [&] { return caution_of(taught, dataset.settings[0]); };
  CHECK(caution().text.empty());
  set(dataset, 0, "/calibration", "another");
  set(dataset, 0, "/training/steps", 7);
  set(dataset, 0, "/cluster/groups/0/name", "machines");
  dataset.settings[0].name = "the same by another name";
  CHECK(caution().text.empty());
  CHECK(!caution().is_other);
}

TEST_CASE("another GPU, link, number of workers, strategy or sampling period is another setting") {
  const Dataset dataset = test::synthetic_dataset(5);
  const TaughtSettings taught = taught_in(dataset, 0);
  for (const char* place : {"/cluster/groups/0/instance/accelerator", "/cluster/groups/0/instance/nic",
                            "/cluster/groups/0/count", "/cluster/groups/0/region", "/cluster/network/topology",
                            "/training/strategy/synchronization", "/output/sampling_period"}) {
    CAPTURE(place);
    Dataset other = dataset;
    set(other, 0, place, "something else");
    const SettingCaution caution = caution_of(taught, other.settings[0]);
    CHECK(caution.is_other);
    CHECK(caution.text.find(place + std::string{" is "}) != std::string::npos);
    CHECK(caution.text.find("it was taught \"a synchronous\" and sees nothing of a cluster: ") == 0);
  }
  CHECK(caution_of(taught, dataset.settings[1]).is_other);
}

TEST_CASE("several settings are a mean, and what is not known is said") {
  Dataset dataset = test::synthetic_dataset(5);
  std::vector<std::size_t> all(dataset.samples.size());
  for (std::size_t s = 0; s < all.size(); ++s) all[s] = s;
  const TaughtSettings several = taught_settings(dataset, all);
  CHECK(several.count == 4);
  CHECK(
      caution_of(several, dataset.settings[2]).text ==
      "it was taught \"a synchronous\", \"a asynchronous\", \"b synchronous\", and 1 more, which it cannot tell apart: "
      "it predicts a mean of them");
  CHECK(!caution_of(several, dataset.settings[2]).is_other);
  CHECK(caution_of({}, dataset.settings[0]).text.find("does not say which GPU") != std::string::npos);

  const TaughtSettings one = taught_in(dataset, 0);
  Dataset unknown = dataset;
  unknown.settings[0].provenance = "{}";
  CHECK(caution_of(one, unknown.settings[0]).text.empty());  // of the same name
  unknown.settings[0].name = "v100";
  CHECK(caution_of(one, unknown.settings[0]).text ==
        "nothing says in which cluster: predicted is as in \"a synchronous\", which it was taught");
  const TaughtSettings of_file = taught_in(unknown, 0);
  CHECK(caution_of(of_file, unknown.settings[0]).text.empty());
  CHECK(caution_of(of_file, dataset.settings[0]).text ==
        "nothing says which GPU, links and workers it was taught in \"v100\": predicted is as there");
  CHECK(!caution_of(of_file, dataset.settings[0]).is_other);
}

TEST_CASE("of very many settings the first are kept, and all are counted") {
  Dataset dataset = test::synthetic_dataset(5);
  std::vector<std::size_t> all;
  for (std::int32_t s = 0; s < 100; ++s) {
    dataset.settings.push_back(dataset.settings[0]);
    dataset.settings.back().name = "setting " + std::to_string(s);
    set(dataset, dataset.settings.size() - 1, "/cluster/groups/0/count", s);
    all.push_back(dataset.samples.size());
    dataset.samples.push_back({.graph = 0, .setting = static_cast<std::int32_t>(dataset.settings.size()) - 1});
  }
  const TaughtSettings taught = taught_settings(dataset, all);
  CHECK(taught.count == 100);
  CHECK(taught.settings.size() == kMostTaught);
  const SettingCaution caution = caution_of(taught, dataset.settings[0]);
  CHECK(!caution.is_other);
  CHECK(caution.text.find("it was taught 100 settings, such as \"setting 0\"") == 0);
}

TEST_CASE("taught settings go through a file, and a damaged one is refused") {
  const Dataset dataset = test::synthetic_dataset(5);
  const TaughtSettings taught = taught_in(dataset, 1), read = taught_settings(to_torch(taught), "f");
  CHECK(read.count == 1);
  REQUIRE(read.settings.size() == 1);
  CHECK(read.settings[0].name == "a asynchronous");
  CHECK(read.settings[0].group == "a");
  CHECK(read.settings[0].provenance == taught.settings[0].provenance);
  TaughtSettings damaged = taught;
  damaged.settings[0].provenance = "[";
  CHECK_THROWS_WITH_AS(taught_settings(to_torch(damaged), "f"), doctest::Contains("f: settings"), InputError);
  damaged = taught;
  damaged.count = 0;
  CHECK_THROWS_AS(taught_settings(to_torch(damaged), "f"), InputError);
  CHECK_THROWS_AS(taught_settings(TorchDict{}, "f"), InputError);
}

}  // namespace rehearse
