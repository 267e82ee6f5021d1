#pragma once
// Scales of a network's inputs, and lists of names and numbers, with their place in the file of a predictor.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "predictor/torch_file.hpp"

namespace rehearse::detail {

/// Mean and standard deviation of each column; columns that never vary get an infinite one, and are so left out.
struct Scale {
  std::vector<float> mean, inverse;

  void apply(std::vector<float>& rows) const {
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = std::clamp((rows[i] - mean[i % mean.size()]) * inverse[i % mean.size()], -10.0F, 10.0F);
  }
};

/// Adds up rows, by columns, for their scale.
class ScaleSum {
 public:
  explicit ScaleSum(std::size_t columns) : sum_(columns), squares_(columns) {}
  void add(const std::vector<float>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sum_[i % sum_.size()] += rows[i];
      squares_[i % sum_.size()] += static_cast<double>(rows[i]) * rows[i];
    }
    count_ += static_cast<double>(rows.size()) / static_cast<double>(sum_.size());
  }
  Scale finish() const;

 private:
  std::vector<double> sum_, squares_;
  double count_ = 0;
};

/// Two tensors: mean and inverse.
TorchValue stored(const Scale& scale);
TorchValue list_of(const std::vector<std::string>& texts);

// From the file. Each throws InputError, "where: ...", if the value is something else, or has another size.
Scale scale_of(const TorchValue& value, std::size_t columns, const std::string& where);
std::vector<std::string> texts_of(const TorchValue& value, const std::string& where);
std::vector<double> numbers_of(const TorchValue& value, std::size_t count, const std::string& where);

}  // namespace rehearse::detail
