// Configurations of published models: their parameters are the published ones.

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/json.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/imported.hpp"
#include "tests/support/paths.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse {

TEST_CASE("published models have the published parameters") {
  const Json file = load_json_file(source_folder() + "/tests/workloads/importers/huggingface_models.json");
  int exact = 0;
  for (const Json& row : file["models"]) {
    const auto name = row["model"].get<std::string>();
    CAPTURE(name);
    std::int64_t parameters = 0;
    const std::string error = test::error_of([&] {
      parameters = test::workload_of(import_model(Source{"config.json", row["config"].dump()})).parameters();
    });
    CHECK(error == "no error");
    if (row.contains("rounding")) {
      CHECK(std::abs(static_cast<double>(parameters) - row["parameters"].get<double>()) <=
            row["rounding"].get<double>());
      continue;
    }
    const std::int64_t missing = row.value("missing", std::int64_t{0});
    CHECK((missing == 0 || row.contains("missing_is")));
    CHECK(parameters == row["parameters"].get<std::int64_t>() + missing);
    ++exact;
  }
  CHECK(exact >= 100);
}

}  // namespace rehearse
