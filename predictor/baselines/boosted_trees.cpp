#include "predictor/baselines/boosted_trees.hpp"

#include <xgboost/c_api.h>

#include <array>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

namespace rehearse {

namespace {

using Table = std::unique_ptr<void, int (*)(DMatrixHandle)>;

constexpr int kTrees = 400;
/// As is usual for some thousand rows; depth and rate are XGBoost's own or near them.
constexpr std::array<std::array<const char*, 2>, 8> kParameters{{{"objective", "reg:squarederror"},
                                                                 {"tree_method", "hist"},
                                                                 {"max_depth", "6"},
                                                                 {"eta", "0.06"},
                                                                 {"subsample", "0.8"},
                                                                 {"colsample_bytree", "0.6"},
                                                                 {"nthread", "1"},
                                                                 {"verbosity", "0"}}};

void check(int status) {
  if (status != 0) throw std::runtime_error{std::string{"XGBoost: "} + XGBGetLastError()};
}

Table table_of(const std::vector<std::vector<double>>& rows) {
  std::vector<float> values;
  for (const std::vector<double>& row : rows) values.insert(values.end(), row.begin(), row.end());
  DMatrixHandle matrix = nullptr;
  check(XGDMatrixCreateFromMat(values.data(), rows.size(), rows.empty() ? 0 : rows.front().size(),
                               std::numeric_limits<float>::quiet_NaN(), &matrix));
  return {matrix, &XGDMatrixFree};
}

}  // namespace

std::vector<double> boosted_trees(const std::vector<std::vector<double>>& rows, const std::vector<double>& targets,
                                  const std::vector<std::vector<double>>& asked) {
  const Table train = table_of(rows), question = table_of(asked);
  const std::vector<float> labels{targets.begin(), targets.end()};
  check(XGDMatrixSetFloatInfo(train.get(), "label", labels.data(), labels.size()));
  BoosterHandle handle = nullptr;
  const std::array<DMatrixHandle, 1> cached{train.get()};
  check(XGBoosterCreate(cached.data(), cached.size(), &handle));
  const std::unique_ptr<void, int (*)(BoosterHandle)> booster{handle, &XGBoosterFree};
  for (const auto& [name, value] : kParameters) check(XGBoosterSetParam(handle, name, value));
  for (int tree = 0; tree < kTrees; ++tree) check(XGBoosterUpdateOneIter(handle, tree, train.get()));
  bst_ulong count = 0;
  const float* found = nullptr;
  check(XGBoosterPredict(handle, question.get(), 0, 0, 0, &count, &found));
  return {found, found + count};
}

}  // namespace rehearse
