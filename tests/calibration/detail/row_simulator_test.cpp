#include "calibration/detail/row_simulator.hpp"

#include <doctest/doctest.h>

#include <set>

#include "tests/support/predicted.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// The first row of each GPU.
Study one_row_per_gpu() {
  Study study = load_studies(source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  std::set<std::string> seen;
  std::erase_if(study.rows, [&](const StudyRow& row) { return !seen.emplace(row.row.text("gpu")).second; });
  return study;
}

Json shipped_profile() { return load_json_file(source_folder() + "/calibration/profiles/cm-dare.json"); }

}  // namespace

TEST_CASE("rows are simulated as `validate` does, in any order, and each once") {
  const std::vector<Study> studies{one_row_per_gpu()};
  const Catalog& catalog = test::shipped_catalog();
  RowSimulator simulator{studies, catalog, 2};
  REQUIRE(simulator.rows().size() == 3);
  const auto values = simulator.simulate({shipped_profile()}, {{2, 0, 1, 0}});
  CHECK(simulator.simulations() == 3);
  std::size_t at = 0;
  for (const std::size_t row : std::vector<std::size_t>{2, 0, 1, 0}) {
    const auto predicted = test::predict({studies[0].rows[row].scenario}, studies[0], catalog, 1);
    CHECK(values[0][at++] == predicted[0].value);
  }
  (void)simulator.simulate({shipped_profile()}, {{0, 1, 2}});
  CHECK(simulator.simulations() == 3);
}

TEST_CASE("a row is not simulated again when the profile changed where its scenario does not look") {
  const std::vector<Study> studies{one_row_per_gpu()};
  const Catalog& catalog = test::shipped_catalog();
  RowSimulator simulator{studies, catalog, 2};
  std::vector<std::size_t> k80_rows, other_rows;
  for (std::size_t i = 0; i < simulator.rows().size(); ++i)
    (studies[0].rows[i].row.text("gpu") == "K80" ? k80_rows : other_rows).push_back(i);
  REQUIRE(!k80_rows.empty());
  REQUIRE(!other_rows.empty());
  std::vector<std::size_t> all = k80_rows;
  all.insert(all.end(), other_rows.begin(), other_rows.end());
  Json changed = shipped_profile();
  changed["gpu"]["peak_efficiency"]["K80"] = 0.4;
  const auto values = simulator.simulate({shipped_profile(), changed}, {all, all});
  CHECK(simulator.simulations() == all.size() + k80_rows.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    const bool is_k80 = k < k80_rows.size();
    CHECK((values[0][k] == values[1][k]) == !is_k80);
    // The same from scratch: what was left out of the comparison has no effect.
    Json scenario = parse_json(studies[0].rows[all[k]].scenario, "row");
    scenario["calibration"] = changed;
    const auto predicted = test::predict({to_json_text(scenario)}, studies[0], catalog, 1);
    CHECK(values[1][k] == predicted[0].value);
  }
}

TEST_CASE("what a profile leaves out is the same for a fit as for `validate`, and follows the values that are fitted") {
  const std::vector<Study> studies{one_row_per_gpu()};
  const Catalog& catalog = test::shipped_catalog();
  RowSimulator simulator{studies, catalog, 2};
  Json profile = shipped_profile();
  profile.erase("fit");
  profile.erase("servers");
  profile.erase("network");
  profile["gpu"]["peak_efficiency"].erase("V100");  // that of the P100 stands for it
  Json changed = profile;
  changed["gpu"]["peak_efficiency"]["P100"] = 0.5;
  const auto values = simulator.simulate({profile, changed}, {{0, 1, 2}, {0, 1, 2}});
  CHECK(simulator.simulations() == 5);
  for (std::size_t row = 0; row < 3; ++row) {
    const std::string gpu{studies[0].rows[row].row.text("gpu")};
    CAPTURE(gpu);
    CHECK((values[0][row] == values[1][row]) == (gpu == "K80"));
    for (const std::size_t p : {0, 1}) {
      Json scenario = parse_json(studies[0].rows[row].scenario, "row");
      scenario["calibration"] = p == 0 ? profile : changed;
      const auto predicted = test::predict({to_json_text(scenario)}, studies[0], catalog, 1);
      CHECK(values[p][row] == predicted[0].value);
    }
  }
}

TEST_CASE("a study of collectives takes from elsewhere what its profile does not state of them") {
  std::vector<Study> studies =
      load_studies(source_folder() + "/scenarios/studies/baidu-deepbench-allreduce-pascal.json");
  studies[0].rows.erase(studies[0].rows.begin() + 4, studies[0].rows.end());
  const Catalog& catalog = test::shipped_catalog();
  RowSimulator simulator{studies, catalog, 1};
  Json profile = load_json_file(source_folder() + "/calibration/profiles/baidu-deepbench-pascal.json");
  profile.erase("fit");
  profile.erase("collectives");
  const auto values = simulator.simulate({profile}, {{0, 1, 2, 3}});
  for (std::size_t row = 0; row < 4; ++row) {
    Json scenario = parse_json(studies[0].rows[row].scenario, "row");
    scenario["calibration"] = profile;
    const auto predicted = test::predict({to_json_text(scenario)}, studies[0], catalog, 1);
    CHECK(values[0][row] == predicted[0].value);
  }
}

TEST_CASE("without parameter servers their times do not matter") {
  const std::string root = source_folder();
  const Json servers = test::shipped_scenario();
  Json all_reduce = servers;
  all_reduce["cluster"]["groups"].erase(0);
  all_reduce["training"]["strategy"] = Json{{"kind", "all_reduce"}};
  Json changed = shipped_profile();
  changed["servers"]["time_per_variable"] = "1ms";
  CHECK(used_profile(test::resolved(all_reduce), changed) ==
        used_profile(test::resolved(all_reduce), shipped_profile()));
  CHECK(used_profile(test::resolved(servers), changed) != used_profile(test::resolved(servers), shipped_profile()));
  const auto simulated_with = [&](const Json& profile) {
    Json scenario = all_reduce;
    scenario["calibration"] = profile;
    return test::simulated(scenario)["steps_per_s"];
  };
  CHECK(simulated_with(changed) == simulated_with(shipped_profile()));
}

TEST_CASE("a row that gives no value names its line") {
  std::vector<Study> studies{one_row_per_gpu()};
  studies[0].metric = "steps_per_sec";
  const Catalog& catalog = test::shipped_catalog();
  RowSimulator simulator{studies, catalog, 1};
  try {
    (void)simulator.simulate({shipped_profile()}, {{0}});
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(std::string{error.what()}.find("single_worker_speed.csv:2: cannot be simulated: unknown metric") !=
          std::string::npos);
  }
}

}  // namespace rehearse
