#include "calibration/measured_gpus.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

bool has_digit(std::string_view word) { return word.find_first_of("0123456789") != std::string_view::npos; }

/// "80gb", "sxm4": of a form of the model, not of the model.
bool is_of_form(const std::string& word) {
  const bool is_size = word.ends_with("gb") && word.find_first_not_of("0123456789") == word.size() - 2;
  return is_size || word.starts_with("sxm") || word.starts_with("pcie") || word == "hbm3" || word == "hbm2" ||
         word == "hbm2e" || word == "hbm3e";
}

/// What tells the model: the words with digits, or all if there are none.
std::set<std::string> model_words(std::string_view name) {
  std::set<std::string> with_digits, all;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && !is_of_form(word)) {
      all.insert(word);
      if (has_digit(word)) with_digits.insert(word);
    }
    word.clear();
  };
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      word += static_cast<char>(std::tolower(byte));
    else
      end_word();
  }
  end_word();
  return with_digits.empty() ? all : with_digits;
}

/// The operation of a scenario of one collective; empty for another.
std::string simulated_operation(const Json& scenario) {
  const Json* structure = json_pointer_find(scenario, "/workload/model/structure");
  if (structure == nullptr || structure->value("family", "") != "collective") return {};
  return structure->value("operation", "all_reduce");
}

/// In the words of nccl-tests: what the row is of, if that is not `operation`; empty if it is, or if nothing tells.
std::string other_collective(const CsvRow& row, const std::string& operation) {
  const std::string collective{row.text("collective")};
  if (!collective.empty())
    return collective == operation || (collective == "alltoall" && operation == "all_to_all") ? "" : collective;
  const bool sums = !row.text("redop").empty() && row.text("redop") != "none";
  const bool is_summed = operation == "all_reduce" || operation == "reduce_scatter";
  return sums == is_summed ? "" : sums ? "a collective that sums" : "a collective that sums nothing (redop)";
}

/// What a row of a listing of collectives was measured on that its scenario does not have; empty if that is the same.
std::string other_than_simulated(const StudyRow& row, const std::string& file_name, const Catalog& catalog) {
  const std::string operation = simulated_operation(parse_json(row.scenario, file_name));
  if (operation.empty()) return {};
  if (const std::string other = other_collective(row.row, operation); !other.empty())
    return other + ", the study's scenario simulates " + operation;
  if (row.row.text("ranks").empty()) return {};
  try {
    const double gpus = gpus_of_workers(read_row(row, file_name, catalog));
    if (row.row.number("ranks") == gpus) return {};
    const std::string ranks{row.row.text("ranks")};
    return ranks + (ranks == "1" ? " rank" : " ranks") + ", the study's scenario has " + to_text(gpus) + " GPUs";
  } catch (const InputError&) { return {}; }  // told where the row is simulated
}

/// The column with names of GPUs: what the format says, or in a table of the user's own one that is called so.
std::string gpu_column_of(const Study& study) {
  if (!study.gpu_column.empty() || !study.table) return study.gpu_column;
  for (const char* name : {"gpu", "GPU", "gpu_name", "gpu_type", "accelerator", "device"})
    if (study.table->has_column(name)) return name;
  return {};
}

}  // namespace

bool is_same_gpu_model(std::string_view device, std::string_view accelerator) {
  const std::set<std::string> found = model_words(device), expected = model_words(accelerator);
  return std::ranges::any_of(expected, [&](const std::string& word) { return found.contains(word); });
}

std::vector<std::string> other_gpu_remarks(const Study& study, const Catalog& catalog) {
  const std::string column = gpu_column_of(study);
  if (column.empty()) return {};
  const std::vector<std::string> known = catalog.accelerator_names();
  const auto is_gpu = [&](const std::string& device) {
    return !study.gpu_column.empty() ||
           std::ranges::any_of(known, [&](const std::string& name) { return is_same_gpu_model(device, name); });
  };
  std::vector<std::string> remarks;
  std::set<std::string> seen;
  for (const StudyRow& row : study.rows) {
    const std::string device{row.row.text(column)};
    if (device.empty() || !is_gpu(device) || row.scenario.empty() || !seen.insert(device).second) continue;
    std::set<std::string> simulated;
    try {
      for (const Group& group : read_row(row, study.file_name, catalog).groups)
        if (group.role == Role::kWorker && group.accelerator) simulated.insert(group.accelerator->name);
    } catch (const InputError&) {
      continue;  // told where the row is simulated
    }
    std::string names;
    for (const std::string& name : simulated) names += (names.empty() ? "" : ", ") + name;
    if (std::ranges::none_of(simulated, [&](const std::string& name) { return is_same_gpu_model(device, name); }))
      remarks.push_back(study.measurements_file + ": was measured on " + in_quotes(device) +
                        "; the study's scenario has " + names);
  }
  return remarks;
}

void leave_out_other_collectives(Study& study, const Catalog& catalog) {
  if (!study.is_of_collectives) return;
  std::map<std::string, std::size_t> left_out;  // rows, by what they are of
  std::string refusal;
  std::vector<StudyRow> kept;
  for (StudyRow& row : study.rows) {
    const std::string other = row.scenario.empty() ? "" : other_than_simulated(row, study.file_name, catalog);
    if (!other.empty() && left_out.empty())
      refusal = study.measurements_file + ":" + std::to_string(row.row.line()) + ": is of " + other +
                "; no row is left to compare: copy the study and state your machines in it" +
                (row.row.text("machines") == "1"
                     ? ", one machine with profile \"nccl\" and the free values of scenarios/studies/nccl.json"
                     : "");
    if (other.empty())
      kept.push_back(std::move(row));
    else
      ++left_out[other];
  }
  if (kept.empty() && !left_out.empty()) throw InputError{refusal};
  study.rows = std::move(kept);
  for (const auto& [other, rows] : left_out)
    study.remarks.push_back(study.measurements_file + ": rows of " + other + ", are left out: " + std::to_string(rows));
}

}  // namespace rehearse
