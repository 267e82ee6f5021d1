#include "platforms/pool_origin.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace rehearse {

TEST_CASE("machines that differ from those that a pool was fitted on are told") {
  const PoolOrigin origin{.accelerator = "V100", .place = "us-east-1a", .from = "2023-02", .to = "2023-03"};
  CHECK(describe_difference(origin, "V100", "us-east-1a", "2023-03-31").empty());
  CHECK(describe_difference(origin, "v100", "us-east-1", std::nullopt).empty());  // the zone is not stated
  CHECK(describe_difference(origin, "P100", "us-east-1c", "2024-01-01") ==
        "P100 in us-east-1c on 2024-01-01, not V100 in us-east-1a from 2023-02 to 2023-03");
  CHECK(describe_difference({}, "P100", "us-east-1c", "2024-01-01").empty());
}

TEST_CASE("a pool's origin is read, and a wrong date refused") {
  const auto read = [](const char* text) -> std::string {
    const Json json = parse_json(text, "p.json");
    try {
      const PoolOrigin origin = read_pool_origin(JsonReader{json, "p.json"});
      return origin.accelerator + " " + origin.place + " " + origin.from + " " + origin.to;
    } catch (const InputError& error) { return error.what(); }
  };
  CHECK(read(R"({"fitted_on": {"accelerator": "V100", "place": "us-east-1a", "from": "2023", "to": "2023-02"}})") ==
        "V100 us-east-1a 2023 2023-02");
  CHECK(read(R"({"fitted_on": {"from": "May", "to": "2023"}})") ==
        "p.json: /fitted_on/from: expected a date such as 2023, 2023-02 or 2023-02-15; found \"May\"");
  CHECK(read("{}") == "   ");
}

}  // namespace rehearse
