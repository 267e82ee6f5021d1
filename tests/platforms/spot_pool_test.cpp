#include "platforms/spot_pool.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/catalog.hpp"
#include "sim/base/random.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

SpotPool read(const std::string& text) {
  const Json json = parse_json(text, "p.json");
  return read_spot_pool("pool", JsonReader{json, "p.json"});
}

const char* const kPool = R"({"source": "made up",
  "lifetime": {"law": {"law": "mixture", "parts": [{"weight": 0.25, "time": {"law": "exponential", "mean": "1h"}},
                                                   {"weight": 0.75, "time": {"law": "lognormal", "median": "5h", "sigma": 1}}]},
               "start": {"share": 0.2, "within": "1h"}, "cap": "24h",
               "hours": {"utc_offset_h": -8, "factors": [2,0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}},
  "notice": "30s",
  "bulk": {"interval": {"law": "weibull", "scale": "2h", "shape": 0.6}, "share": {"a": 0.5, "b": 2},
           "outage": {"law": "bathtub", "early": 0.5, "early_mean": "1min", "late": 0.5, "late_rise": "1h", "deadline": "3h"}},
  "wait": {"law": "empirical", "ages": ["1min", "1h"], "cumulative": [0.5, 1]}})";

}  // namespace

TEST_CASE("a pool is written as it is read") {
  const Json json = to_json(read(kPool));
  CHECK(to_json_text(json) == to_json_text(to_json(read(to_json_text(json)))));
  Json original = parse_json(kPool, "p.json");
  for (const char* key : {"source", "notice", "lifetime"}) CHECK(json[key].dump().size() > 2);
  CHECK(read(to_json_text(json)).lifetime.survival(Seconds{7200}) ==
        doctest::Approx(read(kPool).lifetime.survival(Seconds{7200})).epsilon(1e-9));
}

TEST_CASE("churn is written as it is read, and does not go with hours") {
  Json json = parse_json(kPool, "p.json");
  json["churn"] = {{"factor", 20.5}, {"calm_mean", "6h"}, {"churn_mean", "90min"}};
  CHECK_THROWS_WITH_AS((void)read(json.dump()),
                       "p.json: /churn: expected none in a pool with \"hours\"; found an object", InputError);
  json["lifetime"].erase("hours");
  const SpotPool pool = read(json.dump()), again = read(to_json_text(to_json(pool)));
  REQUIRE(again.churn);
  CHECK(again.churn->factor == 20.5);
  CHECK(again.churn->calm_mean == Seconds{21600});
  CHECK(again.churn->churn_mean == Seconds{5400});
  json["churn"]["factors"] = 3;
  CHECK_THROWS_WITH_AS((void)read(json.dump()), doctest::Contains("p.json: /churn: unknown key \"factors\""),
                       InputError);
}

TEST_CASE("a written mixture of all machines leaves none that lives for ever") {
  SpotPool pool{.source = "made up"};
  pool.lifetime.law = {Mixture{{{1.0 / 3, {Exponential{Seconds{10}}}}, {2.0 / 3, {Exponential{Seconds{100}}}}}}};
  const SpotPool again = read(to_json_text(to_json(pool)));
  CHECK(again.lifetime.survival(Seconds{1e6}) < 1e-12);
}

TEST_CASE("shares of bulk revocations follow Kumaraswamy's law") {
  // a = 2, b = 3: F(0.5) = 1 - (1 - 0.25)^3 = 0.578125; mean 3 B(1.5, 3) = 16/35
  const BulkRevocations bulk{.interval = {Exponential{Seconds{1}}}, .share_a = 2, .share_b = 3};
  CHECK(bulk.mean_share() == doctest::Approx(16.0 / 35).epsilon(1e-12));
  CHECK(bulk.hits_any_of(1) == doctest::Approx(bulk.mean_share()).epsilon(1e-3));
  CHECK(bulk.hits_any_of(2) > bulk.hits_any_of(1));
  CHECK(bulk.hits_any_of(1000) == doctest::Approx(1).epsilon(1e-3));
  Rng rng{3, "shares"};
  constexpr int kDraws = 100'000;
  double sum = 0;
  int below = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double share = bulk.draw_share(rng);
    CHECK((share >= 0 && share <= 1));
    sum += share;
    below += share < 0.5;
  }
  CHECK(sum / kDraws == doctest::Approx(16.0 / 35).epsilon(0.01));
  CHECK(below / static_cast<double>(kDraws) == doctest::Approx(0.578125).epsilon(0.01));
}

TEST_CASE("a catalog's spot pools are found by name") {
  const test::TemporaryFolder folder;
  folder.write("mine.json", std::string{R"({"format": 1, "spot_pools": {"mine/a": )"} + kPool + "}}");
  const Catalog catalog{{{folder.path, folder.path, folder.path}}};
  CHECK(catalog.spot_pool_names() == std::vector<std::string>{"mine/a"});
  const Json nobody;
  CHECK(read_spot_pool("mine/a", catalog.spot_pool("mine/a", JsonReader{nobody, "s.json"})).notice == Seconds{30});
  CHECK_THROWS_WITH_AS((void)catalog.spot_pool("mine/b", JsonReader{nobody, "s.json"}),
                       "s.json: unknown spot pool \"mine/b\"; did you mean \"mine/a\"?", InputError);
}

TEST_CASE("mistakes in pools are named") {
  const std::string life = R"("source": "s", "lifetime": {"law": {"law": "exponential", "mean": "1h"}})";
  CHECK_THROWS_WITH_AS((void)read("{" + life + R"(, "notice": "2d"})"),
                       "p.json: /notice: expected at most 1d; found \"2d\"", InputError);
  CHECK_THROWS_WITH_AS(
      (void)read("{" + life +
                 R"(, "bulk": {"interval": {"law": "exponential", "mean": "1ms"}, "share": {"a": 1, "b": 1}}})"),
      R"(p.json: /bulk/interval: expected a mean of at least 10s; found an object)", InputError);
  CHECK_THROWS_WITH_AS(
      (void)read("{" + life +
                 R"(, "bulk": {"interval": {"law": "exponential", "mean": "1h"}, "share": {"a": 0.01, "b": 1000}}})"),
      R"(p.json: /bulk/share: expected a and b of a mean share of at least 0.001; found an object)", InputError);
}

}  // namespace rehearse
