#include "calibration/transfer.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "calibration/metric.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// A tensor of `bytes` between nodes of the testbed.
Scenario transfer(int bytes, double loss, int connections = 1) {
  Json scenario = load_json_file(source_folder() + "/scenarios/testbed/all-reduce.json");
  scenario["workload"]["model"]["structure"]["bytes"] = bytes;
  scenario["cluster"]["network"]["packet_loss"] = loss;
  scenario["cluster"]["network"]["tcp"] = {{"connections", connections}};
  return test::resolved(scenario);
}

}  // namespace

TEST_CASE("a transfer takes the latency and the time of its bytes, more where packets are lost") {
  const double alone = transfer_time(transfer(1'048'576, 0), {});
  const double burst = 3028 * 0.956407;  // payload of what the NIC passes at once
  CHECK(alone == doctest::Approx(40e-6 + (1'048'576 - burst) / transfer_rate(transfer(1, 0))).epsilon(1e-6));
  CHECK(transfer_time(transfer(1024, 0), {}) == doctest::Approx(40e-6));
  CHECK(transfer_time(transfer(1'048'576, 1e-9), {}) == doctest::Approx(alone).epsilon(1e-3));
  // On a short way what is lost takes its own time once more: p / (1 - p).
  const double median = transfer_time(transfer(1'048'576, 0.01), 0.5);
  CHECK(median > alone * 1.005);
  CHECK(median < alone * 1.05);
  double last = 0;
  for (const double probability : {0.01, 0.25, 0.5, 0.95, 0.999}) {
    const double quantile = transfer_time(transfer(65'536, 0.02), probability);
    CHECK(quantile >= last);
    last = quantile;
  }
  CHECK(transfer_time(transfer(65'536, 0.02), 0.999) > 0.2);  // a time-out
  CHECK(transfer_time(transfer(65'536, 0.02), 0.25) < 0.02);
  CHECK(transfer_time(transfer(1'048'576, 0, 4), {}) == alone);
}

TEST_CASE("more messages wait for a timer where more is lost, and on more connections") {
  CHECK(transfer_timeout_share(transfer(65'536, 0)) == 0);
  const double few = transfer_timeout_share(transfer(262'144, 0.005));
  const double more = transfer_timeout_share(transfer(262'144, 0.05));
  CHECK(few < more);
  CHECK(more < transfer_timeout_share(transfer(262'144, 0.05, 4)));
  CHECK(simulated_metric(transfer(262'144, 0.05), "transfer_timeout_share") == more);
}

}  // namespace rehearse
