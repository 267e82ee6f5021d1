#include "sim/app/output/accuracy_document.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "calibration/predicted_computation.hpp"
#include "sim/base/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/readme_part.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

const std::string kRefresh = "cmake/refresh_readmes.sh accuracy";

/// The cells of the row of a Markdown table that begins with `name`; none if there is no such row.
std::vector<std::string> cells_of(const std::vector<std::string>& lines, const std::string& name) {
  std::vector<std::string> cells;
  for (const std::string& line : lines) {
    if (!line.starts_with("| " + name + " |")) continue;
    std::istringstream text{line.substr(2)};
    for (std::string cell; std::getline(text, cell, '|');) {
      cell.erase(0, cell.find_first_not_of(' '));
      cells.push_back(cell.substr(0, cell.find_last_not_of(' ') + 1));
    }
    break;
  }
  return cells;
}

/// "roofline: 12.1 / 13.4".
StudyAccuracy::BestBaseline stated_baseline(const std::string& cell) {
  StudyAccuracy::BestBaseline best{.name = cell.substr(0, cell.find(':')), .errors = {}};
  std::istringstream errors{cell.substr(cell.find(':') + 1)};
  std::string slash;
  errors >> best.errors.median_ape >> slash >> best.errors.mape;
  return best;
}

/// "15.5 / 30.1, without 5 rows"; the rows with a prediction are not stated.
StudyAccuracy::Computation stated_computation(const std::string& cell) {
  StudyAccuracy::Computation computation;
  std::istringstream text{cell};
  std::string word;
  if (text >> computation.errors.median_ape >> word >> computation.errors.p90_ape) computation.errors.rows = 1;
  text >> word >> word >> computation.rows_without;
  return computation;
}

/// The studies' accuracy: cross-validated errors as the profiles state them, other errors, the predicted computation and
/// the best baseline as `stated`; numbers of rows and values and noise as they are.
std::vector<StudyAccuracy> accuracies(const std::vector<Study>& studies, const std::vector<std::string>& stated) {
  std::vector<StudyAccuracy> found;
  for (const Study& study : studies) {
    StudyAccuracy accuracy = study_accuracy(study, validate(study, std::vector<Prediction>(study.rows.size())),
                                            profile_of(study, test::shipped_catalog()));
    const std::vector<std::string> cells = cells_of(stated, study.name);
    REQUIRE(cells.size() > 9);
    if (accuracy.quality.of != StudyQuality::Of::kCrossValidated) {
      accuracy.quality.errors.median_ape = std::stod(cells[4]);
      accuracy.quality.errors.mape = std::stod(cells[5]);
      accuracy.quality.errors.p90_ape = std::stod(cells[6]);
    }
    accuracy.best_baseline = stated_baseline(cells[9]);
    if (accuracy.step_times > 0) accuracy.computation = stated_computation(cells[8]);
    found.push_back(std::move(accuracy));
  }
  return found;
}

/// `study` with the rows of the sample alone.
Study sample_of(Study study) {
  std::vector<StudyRow> rows;
  for (const std::size_t i : sampled_rows(study)) rows.push_back(study.rows[i]);
  study.rows = std::move(rows);
  return study;
}

std::vector<SampledRow> simulated_sample(const std::vector<Study>& studies) {
  const Catalog& catalog = test::shipped_catalog();
  std::vector<SampledRow> sample;
  for (const Study& all : studies) {
    const Study study = sample_of(all);
    const Json profile = profile_of(study, catalog);
    const std::vector<Prediction> own = predict(study, catalog, 2);
    std::vector<Prediction> by_kernels(own.size());
    if (study_accuracy(study, validate(study, own), profile).step_times > 0)
      by_kernels = predict(with_predicted_computation(study, catalog), catalog, 2);
    for (std::size_t i = 0; i < own.size(); ++i)
      sample.push_back({study.name, study.rows[i].row.line(), own[i].value, by_kernels[i].value});
  }
  return sample;
}

}  // namespace

TEST_CASE("the READMEs state the accuracy that studies and profiles have") {
  const auto [studies, headlines] = load_study_set(test::kRoot + "/scenarios/studies/all.json");
  const std::vector<StudyAccuracy> now = accuracies(studies, test::readme_part("calibration/README.md", "accuracy"));
  test::check_readme_part("calibration/README.md", "accuracy", accuracy_tables(now), kRefresh);
  test::check_readme_part("README.md", "headlines", headline_table(headlines, now), kRefresh);
}

TEST_CASE("rows of each study are simulated as when the READMEs' accuracy was measured") {
  const auto [studies, headlines] = load_study_set(test::kRoot + "/scenarios/studies/all.json");
  const CsvTable stated = load_csv_file(test::kRoot + "/calibration/accuracy_sample.csv");
  const std::vector<SampledRow> sample = simulated_sample(studies);
  REQUIRE(stated.row_count() == sample.size());
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const CsvRow row = stated.row(i);
    CAPTURE(sample[i].study);
    CAPTURE(sample[i].line);
    CHECK(row.text("study") == sample[i].study);
    CHECK(row.text("line") == std::to_string(sample[i].line));
    for (const auto& [column, value] : {std::pair{"simulated", sample[i].simulated},
                                        std::pair{"computation_predicted", sample[i].computation_predicted}}) {
      CAPTURE(column);
      REQUIRE(row.text(column).empty() == !value.has_value());
      INFO("to refresh: " << kRefresh);
      if (value) CHECK(row.number(column) == doctest::Approx(*value).epsilon(2e-5));
    }
  }
}

TEST_CASE("the tables of a set of studies") {
  const StudyAccuracy fitted{
      .study = "ours",
      .about = {.source = "us", .hardware = "8 P100", .best_published = "7 %: others"},
      .quality = {.of = StudyQuality::Of::kCrossValidated,
                  .errors = {.rows = 72, .mape = 5.7706, .median_ape = 4.72, .p90_ape = 12.1, .noise_floor = 1.876}},
      .step_times = 0,
      .free_values = 11};
  StudyAccuracy predicted{.study = "theirs",
                          .about = {.source = "them", .hardware = "4 K80", .best_published = "7 %: others"},
                          .quality = {.of = StudyQuality::Of::kPredicted,
                                      .errors = {.rows = 5, .mape = 9.96, .median_ape = 9, .p90_ape = 12345.6}},
                          .step_times = 3,
                          .free_values = 1};
  CHECK(fitted.fitted_values_text() == "11");
  CHECK(predicted.fitted_values_text() == "4");
  CHECK(StudyAccuracy{.study = "assumed", .about = {}, .quality = {}, .has_record = false}.fitted_values_text() ==
        "not recorded");
  StudyAccuracy own{.study = "own", .about = {}, .quality = {}, .has_record = false};
  own.own_values = 4;
  own.own_rows = 18;
  own.rows = 44;
  CHECK(own.fitted_values_text() == "not recorded, 4 of them in this study's fit, which sees 18 of 44 rows");
  CHECK(accuracy_tables({fitted, predicted}) ==
        "| study | rows | of them | free values | median | MAPE | p90 | noise |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| ours | 72 | cross-validated | 11 | 4.72 | 5.771 | 12.1 | 1.876 |\n"
        "| theirs | 5 | not fitted | 1 + 3 step times: interpolates | 9 | 9.96 | 12346 |  |\n"
        "\n"
        "| study | source | hardware |\n"
        "| --- | --- | --- |\n"
        "| ours | us | 8 P100 |\n"
        "| theirs | them | 4 K80 |\n"
        "\n"
        "Best published on like data:\n"
        "\n"
        "- ours, theirs:\n"
        "  7 %: others\n");
  StudyAccuracy compared = predicted;
  compared.best_baseline = {.name = "roofline", .errors = {.mape = 21.26, .median_ape = 9.5}};
  CHECK(
      accuracy_tables({fitted, compared})
          .starts_with(
              "| study | rows | of them | free values | median | MAPE | p90 | noise | best baseline: median / MAPE |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
              "| ours | 72 | cross-validated | 11 | 4.72 | 5.771 | 12.1 | 1.876 |  |\n"
              "| theirs | 5 | not fitted | 1 + 3 step times: interpolates | 9 | 9.96 | 12346 |  | roofline: 9.5 / "
              "21.26 |\n"));
  compared.best_baseline = StudyAccuracy::BestBaseline{};
  CHECK(accuracy_tables({compared}).find("| 12346 |  | none |\n") != std::string::npos);
  StudyAccuracy by_kernels = predicted;
  by_kernels.computation = {.errors = {.rows = 3, .mape = 20, .median_ape = 15.5, .p90_ape = 30.125},
                            .rows_without = 2};
  const std::string table = accuracy_tables({fitted, by_kernels});
  CHECK(table.find("| noise | computation predicted: median / p90 |\n") != std::string::npos);
  CHECK(table.find("| 1.876 |  |\n") != std::string::npos);
  CHECK(table.find("| 12346 |  | 15.5 / 30.12, without 2 rows |\n") != std::string::npos);
  by_kernels.computation->errors.rows = 0;
  CHECK(accuracy_tables({by_kernels}).find("|  | no row |\n") != std::string::npos);
  CHECK(headline_table({}, {fitted}).empty());
  CHECK(headline_table({{"our own", {"ours"}}, {"both", {"theirs", "ours"}}}, {fitted, predicted}) ==
        "| what | rows | MAPE |\n"
        "| --- | --- | --- |\n"
        "| our own, cross-validated | 72 | 5.8 % |\n"
        "| both | 77 | 5.8 to 10.0 %, by study |\n");
}

TEST_CASE("a headline is of studies of its set") {
  const test::TemporaryFolder folder;
  const std::string study = test::kRoot + "/scenarios/studies/cm-dare-latency.json";
  const auto refused = [&](const std::string& headline, const std::string& message) {
    const Json set{{"format", 1}, {"studies", {study}}, {"headlines", {parse_json(headline, "headline")}}};
    const std::string file = folder.write("set.json", to_json_text(set)).string();
    CHECK_THROWS_WITH_AS(load_study_set(file), doctest::Contains((file + ": " + message).c_str()), InputError);
  };
  refused(R"({"of": "ours", "studies": ["cm-dare"]})", "/headlines/0/studies: unknown study of this set \"cm-dare\"");
  refused(R"({"of": "ours", "studies": []})", "/headlines/0/studies: expected at least one study");
  refused(R"({"studies": ["cm-dare"]})", "/headlines/0: expected the key \"of\"");
}

TEST_CASE("cmake/refresh_readmes.sh replaces the parts that it is asked for, and nothing else") {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.path / "cmake");
  fs::create_directories(folder.path / "calibration");
  fs::create_directories(folder.path / "new");
  fs::copy_file(test::kRoot + "/cmake/refresh_readmes.sh", folder.path / "cmake/refresh_readmes.sh");
  const auto readme = [](const std::string& part, const std::string& text) {
    return "before\n\n<!-- " + part + ", written by " + kRefresh + ": begin -->\n\n" + text + "\n\n<!-- " + part +
           ": end -->\n\nafter\n";
  };
  write_file(folder.path / "calibration/README.md", readme("accuracy", "old\nlines"));
  write_file(folder.path / "README.md", readme("headlines", "old"));
  write_file(folder.path / "new/accuracy.md", "| new |\n| --- |\n");
  write_file(folder.path / "new/headlines.md", "newer\n");
  write_file(folder.path / "new/sample.csv", "study\n");
  const std::string script = (folder.path / "cmake/refresh_readmes.sh").string();
  const std::string quietly = " >" + (folder.path / "said").string() + " 2>&1";
  REQUIRE(std::system((script + " accuracy=" + (folder.path / "new").string() + quietly).c_str()) == 0);
  CHECK(read_file(folder.path / "calibration/README.md", kMiB) == readme("accuracy", "| new |\n| --- |"));
  CHECK(read_file(folder.path / "README.md", kMiB) == readme("headlines", "newer"));
  CHECK(read_file(folder.path / "calibration/accuracy_sample.csv", kMiB) == "study\n");

  write_file(folder.path / "README.md", "no such part\n");
  CHECK(std::system((script + " accuracy=" + (folder.path / "new").string() + quietly).c_str()) != 0);
  CHECK(read_file(folder.path / "README.md", kMiB) == "no such part\n");
}

}  // namespace rehearse
