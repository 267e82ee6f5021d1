#pragma once
// Which rows a cross-validation predicts together, and which the fit for them must not see.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "calibration/study.hpp"

namespace rehearse {

/// A combination of values of a study's cross-validation columns.
using FoldKey = std::vector<std::string>;

FoldKey fold_key(const StudyRow& row, const std::vector<std::string>& columns);

/// The rows (indices) of each combination of `columns`, but those that give step times.
std::map<FoldKey, std::vector<std::size_t>> folds_of(const Study& study, const std::vector<std::string>& columns);

/// Whether the fit for fold `key`, of `columns`, of `study` must not see `row` of `other`: it is of that combination, and one of the
/// study's own rows, or another study's with the same columns if the study leaves those out, too.
bool is_left_out(const Study& study, const std::vector<std::string>& columns, const FoldKey& key, const Study& other,
                 const StudyRow& row);

}  // namespace rehearse
