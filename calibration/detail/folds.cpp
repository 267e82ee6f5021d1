#include "calibration/detail/folds.hpp"

#include <algorithm>

namespace rehearse {

FoldKey fold_key(const StudyRow& row, const std::vector<std::string>& columns) {
  FoldKey key;
  for (const std::string& column : columns) key.emplace_back(row.row.text(column));
  return key;
}

std::map<FoldKey, std::vector<std::size_t>> folds_of(const Study& study, const std::vector<std::string>& columns) {
  std::map<FoldKey, std::vector<std::size_t>> folds;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    if (study.rows[i].use != RowUse::kStepTime) folds[fold_key(study.rows[i], columns)].push_back(i);
  return folds;
}

bool is_left_out(const Study& study, const std::vector<std::string>& columns, const FoldKey& key, const Study& other,
                 const StudyRow& row) {
  const bool can_be = other.file_name == study.file_name ||
                      (study.leaves_out_of_all_studies && std::ranges::all_of(columns, [&](const std::string& column) {
                         return other.table->has_column(column);
                       }));
  return can_be && fold_key(row, columns) == key;
}

}  // namespace rehearse
