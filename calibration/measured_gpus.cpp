#include "calibration/measured_gpus.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

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

}  // namespace

bool is_same_gpu_model(std::string_view device, std::string_view accelerator) {
  const std::set<std::string> found = model_words(device), expected = model_words(accelerator);
  return std::ranges::any_of(expected, [&](const std::string& word) { return found.contains(word); });
}

std::vector<std::string> other_gpu_remarks(const Study& study, const Catalog& catalog) {
  if (study.gpu_column.empty()) return {};
  std::vector<std::string> remarks;
  std::set<std::string> seen;
  for (const StudyRow& row : study.rows) {
    const std::string device{row.row.text(study.gpu_column)};
    if (device.empty() || row.scenario.empty() || !seen.insert(device).second) continue;
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

}  // namespace rehearse
