#include "platforms/price.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "platforms/catalog.hpp"
#include "platforms/instance.hpp"
#include "sim/base/utc_time.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::price_test {

namespace {

const std::string kRoot = source_folder();

Catalog shipped() {
  return Catalog{{{kRoot + "/platforms/catalog", kRoot + "/workloads/models", kRoot + "/calibration/profiles"}}};
}

JsonReader nobody() {
  static const Json json;
  return {json, "test"};
}

/// 2 USD/h from 1000 s, 5 from 4600 s, 1 from 8200 s.
PriceSeries steps() { return PriceSeries{{{1000, 2}, {4600, 5}, {8200, 1}}}; }

Instance machine(const char* provider) {
  Instance machine;
  machine.name = "m";
  machine.provider = provider;
  machine.usd_per_hour_on_demand = 36;
  machine.usd_per_hour_spot = 18;
  return machine;
}

std::string history_refusal(const std::string& text) {
  const Json json = parse_json(text, "p.json");
  try {
    (void)read_price_history(JsonReader{json, "p.json"});
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

double billed(const BillingRule& rule, double running, bool is_spot, Ended ended) {
  return billed_time(rule, Seconds{running}, is_spot, ended).value();
}

}  // namespace

TEST_CASE("the cost over a step function of the price is its integral") {
  const PriceSeries series = steps();
  CHECK(series.usd_per_hour(0) == 2);  // before the first: as the first
  CHECK(series.usd_per_hour(4599.5) == 2);
  CHECK(series.usd_per_hour(4600) == 5);
  CHECK(series.usd_per_hour(1e9) == 1);
  CHECK(series.usd(1000, 4600) == 2);  // one hour at 2
  // half an hour at 2, one hour at 5, a quarter of an hour at 1
  CHECK(series.usd(2800, 9100) == 1 + 5 + 0.25);
  CHECK(series.usd(2800, 9100) == doctest::Approx(series.usd(2800, 5000) + series.usd(5000, 9100)).epsilon(1e-15));
  CHECK(series.mean_usd_per_hour(2800, 9100) == doctest::Approx(6.25 / 1.75).epsilon(1e-15));
  CHECK(series.mean_usd_per_hour(5000, 5000) == 5);
  CHECK(series.covers(1000, 8200));
  CHECK_FALSE(series.covers(999, 8200));
  CHECK_FALSE(series.covers(1000, 8201));
  for (const double date : {1000, 5000, 8200}) CHECK(series.doubt_at(date).empty());
  CHECK(series.doubt_at(950) == "begins 50s after the start");
  CHECK(series.doubt_at(8260) == "ends 60s before the start");
  CHECK_THROWS_AS((PriceSeries{{{2, 1}, {1, 1}}}), std::invalid_argument);
  CHECK_THROWS_AS(PriceSeries{{}}, std::invalid_argument);
}

TEST_CASE(
    "billed time: granularity rounds up, a minimum holds, an early end by the provider is free on the spot market") {
  const BillingRule minutes{.granularity = Seconds{60}, .minimum = Seconds{600}, .free_if_revoked = Seconds{900}};
  CHECK(billed(minutes, 0, true, Ended::kByUser) == 0);
  CHECK(billed(minutes, 1, true, Ended::kByUser) == 600);
  CHECK(billed(minutes, 600, true, Ended::kByUser) == 600);
  CHECK(billed(minutes, 600.5, true, Ended::kByUser) == 660);
  CHECK(billed(minutes, 899, true, Ended::kByProvider) == 0);
  CHECK(billed(minutes, 899, false, Ended::kByProvider) == 900);
  CHECK(billed(minutes, 900, true, Ended::kByProvider) == 900);
  const BillingRule& aws = billing_rule_of("aws");
  CHECK(billed(aws, 3599, true, Ended::kByProvider) == 0);  // in the first hour
  CHECK(billed(aws, 3600, true, Ended::kByProvider) == 3600);
  CHECK(billed(aws, 3599, true, Ended::kByUser) == 3599);
  CHECK(billed(aws, 10, false, Ended::kByUser) == 60);
  CHECK(billed(aws, 60 + 1e-12, false, Ended::kByUser) == 60);  // the clock's rounding, not another second
  CHECK(billed(billing_rule_of("gce"), 59, true, Ended::kByProvider) == 0);
  CHECK(billed(billing_rule_of("gce"), 61.2, true, Ended::kByProvider) == 62);
  CHECK(billed(billing_rule_of("azure"), 61, true, Ended::kByProvider) == 61);
  CHECK(billed(billing_rule_of("my own rack"), 61.25, true, Ended::kByProvider) == 61.25);
  CHECK_THROWS_AS((void)billed(aws, -1, false, Ended::kByUser), std::invalid_argument);
}

TEST_CASE("a machine costs its billed seconds times its price") {
  const CostModel list_prices;
  const Instance aws = machine("aws");
  // 36 USD/h are 0.01 USD/s
  CHECK(*list_prices.usd(aws, false, "us-east-1", Seconds{100}, Seconds{7300}, Ended::kByUser) == 72);
  CHECK(*list_prices.usd(aws, false, "us-east-1", Seconds{0}, Seconds{9.5}, Ended::kByUser) ==
        doctest::Approx(0.6).epsilon(1e-15));
  CHECK(*list_prices.usd(aws, true, "us-east-1", Seconds{0}, Seconds{3000}, Ended::kByProvider) == 0);
  CHECK(*list_prices.usd(aws, true, "us-east-1", Seconds{0}, Seconds{7200}, Ended::kByProvider) == 36);
  Instance unpriced = aws;
  unpriced.usd_per_hour_spot = {};
  CHECK_FALSE(list_prices.usd(unpriced, true, "us-east-1", Seconds{0}, Seconds{1}, Ended::kByUser));
}

TEST_CASE("a machine of a zone in the price history costs what it did then") {
  const auto history = std::make_shared<PriceHistory>();
  history->series.emplace(std::pair{"z1", "m"}, steps());
  const CostModel then{history, 1000};
  const Instance aws = machine("aws"), own = machine("");
  CHECK(*then.usd(own, true, "z1", Seconds{1800}, Seconds{8100}, Ended::kByUser) == 6.25);
  CHECK(*then.usd_per_hour(own, true, "z1", Seconds{1800}, Seconds{8100}) == doctest::Approx(6.25 / 1.75));
  CHECK(*then.usd(own, true, "z2", Seconds{0}, Seconds{3600}, Ended::kByUser) == 18);   // not in the history
  CHECK(*then.usd(own, false, "z1", Seconds{0}, Seconds{3600}, Ended::kByUser) == 36);  // not on the spot market
  // The minimum of 60 s goes over the change of price: 30 s at 2, 30 s at 5 USD/h.
  CHECK(*then.usd(aws, true, "z1", Seconds{3570}, Seconds{3571}, Ended::kByUser) ==
        doctest::Approx((30 * 2 + 30 * 5) / 3600.0).epsilon(1e-15));
}

TEST_CASE("a price of a region goes before the one that holds anywhere, also in its zones") {
  Instance gce = machine("gce");
  gce.prices = {{.is_spot = true, .regions = {"us-west1", "us-east-1"}, .usd_per_hour = 7, .date = "", .source = ""}};
  CHECK(*gce.usd_per_hour(true, "us-west1") == 7);
  CHECK(*gce.usd_per_hour(true, "us-west1-b") == 7);
  CHECK(*gce.usd_per_hour(true, "us-east-1c") == 7);
  CHECK(*gce.usd_per_hour(true, "us-west10") == 18);
  CHECK(*gce.usd_per_hour(false, "us-west1") == 36);
  CHECK(lies_in("us-east-1", "us-east-1"));
  CHECK_FALSE(lies_in("us-east-1", "us-east-1c"));
  CHECK_FALSE(lies_in("us-east-11", "us-east-1"));
}

TEST_CASE("storage is charged by size and time") {
  // 200 GiB for half a month of 730 h at 0.04 USD
  CHECK(storage_usd(shipped().storage("gce-pd-standard", nobody()), Bytes{200LL << 30}, Seconds{365 * 3600.0}) ==
        doctest::Approx(4).epsilon(1e-15));
}

TEST_CASE("CM-DARE's machines cost the list prices of their parts") {
  const Catalog catalog = shipped();
  const auto price = [&](const char* name, bool is_spot) {
    return *read_instance(name, catalog.instance(name, nobody())).usd_per_hour(is_spot, "us-west1-b");
  };
  // 4 vCPUs, 26 GiB and 26 GiB of extended memory, a K80
  CHECK(price("gce-custom-4-k80", false) ==
        doctest::Approx(4 * 0.033174 + 26 * 0.004446 + 26 * 0.00955 + 0.45).epsilon(1e-4));
  CHECK(price("gce-custom-8-v100", true) ==
        doctest::Approx(8 * 0.00698 + 52 * 0.00094 + 9 * 0.002014 + 0.74).epsilon(1e-4));
}

TEST_CASE("every shipped instance of a provider has its billing rule, every price its date and source") {
  const Catalog catalog = shipped();
  int priced = 0;
  for (const std::string& name : catalog.instance_names()) {
    const Instance instance = read_instance(name, catalog.instance(name, nobody()));
    if (!instance.provider.empty()) CHECK(billing_rule_of(instance.provider).name == instance.provider);
    for (const RegionalPrice& price : instance.prices) {
      ++priced;
      CHECK(price.source.size() > 20);
      CHECK(price.date.size() >= 4);
    }
  }
  CHECK(priced > 10);
}

TEST_CASE("the shipped price history replays AWS's prices of winter 2019-20") {
  const PriceHistory history = shipped().price_history("aws-2019-12", nobody());
  CHECK(history.series.size() == 64);
  const PriceSeries* series = history.find("us-east-1c", "p2.16xlarge");
  REQUIRE(series != nullptr);
  CHECK(series->points().size() == 127);
  const PriceSeries* first = history.find("us-east-1a", "p2.16xlarge");
  REQUIRE(first != nullptr);
  // The file's first rows: 4.6186 USD/h, 4.5603 from 05:30:56.
  const double from = parse_utc("2019-12-23T05:00:56"), change = parse_utc("2019-12-23T05:30:56");
  CHECK(first->usd_per_hour(from) == 4.6186);
  CHECK(first->usd(from, change + 3600) == doctest::Approx(4.6186 / 2 + 4.5603).epsilon(1e-12));
  CHECK(history.find("us-east-1a", "p9.large") == nullptr);
}

TEST_CASE("a history's own text reads back the same") {
  PriceHistory history;
  history.source = "made up";
  history.series.emplace(std::pair{"z1", "m"}, steps());
  history.series.emplace(std::pair{"z2", "m"}, steps());
  const std::pair<std::string, std::string> wanted[] = {{"z1", "m"}, {"z9", "m"}};
  const Json json = to_json(history, wanted);
  const PriceHistory again = read_price_history(JsonReader{json, "again"});
  CHECK(again.series.size() == 1);
  CHECK(again.find("z1", "m")->usd(2800, 9100) == 6.25);
}

TEST_CASE("wrong prices are refused in one line") {
  CHECK(history_refusal(R"({"format": 1, "source": "s"})") == R"(p.json: expected either "file" or "series")");
  CHECK(history_refusal(R"({"format": 1, "source": "s", "series": [{"zone": "z", "instance": "m", "points": []}]})") ==
        "p.json: /series/0/points: expected at least one [utc_s, usd_per_hour]; found an empty array");
  CHECK(history_refusal(
            R"({"format": 1, "source": "s", "series": [{"zone": "z", "instance": "m", "points": [[1, -2]]}]})") ==
        "p.json: /series/0/points/0: expected [utc_s, usd_per_hour], both at least 0; found an array of 2");
  const test::TemporaryFolder folder;
  const auto csv = folder.write("x.csv", "zone,instance_type,timestamp_utc,usd_per_hour\nz,m,yesterday,1\n");
  const auto file = folder.write("x.json", R"({"format": 1, "source": "s", "file": "x.csv"})");
  const Json json = load_json_file(file);
  CHECK_THROWS_WITH_AS((void)read_price_history(JsonReader{json, file.string()}),
                       (csv.string() + ":2: column \"timestamp_utc\": expected a time in UTC, such as "
                                       "\"2020-03-15T10:09:42Z\"; found \"yesterday\"")
                           .c_str(),
                       InputError);
  const Json rule = parse_json(R"({"name": "x", "minimum": "1h", "unit": "1s", "source": "s"})", "r.json");
  CHECK_THROWS_AS((void)read_billing_rule(JsonReader{rule, "r.json"}), InputError);
}

TEST_CASE("a provider of the user's own brings its rule along") {
  const Json json = parse_json(R"({"vcpus": 1, "memory": "1GiB", "nic": "1Gbps", "usd_per_hour_on_demand": 3600,
      "provider": {"name": "mine", "granularity": "1h", "source": "contract"}, "source": "made up"})",
                               "i.json");
  const Instance mine = read_instance("mine", JsonReader{json, "i.json"});
  CHECK(mine.provider == "mine");
  CHECK(*CostModel{}.usd(mine, false, "here", Seconds{0}, Seconds{1}, Ended::kByUser) == 3600);
}

}  // namespace rehearse::price_test
