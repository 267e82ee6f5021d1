#include "predictor/detail/column_scale.hpp"

#include <cmath>
#include <cstdint>

#include "sim/base/errors.hpp"

namespace rehearse::detail {

Scale ScaleSum::finish() const {
  Scale scale;
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    const double mean = sum_[i] / count_;
    const double variance = squares_[i] / count_ - mean * mean;
    scale.mean.push_back(static_cast<float>(mean));
    scale.inverse.push_back(variance > 1e-8 * (1 + mean * mean) ? static_cast<float>(1 / std::sqrt(variance)) : 0.0F);
  }
  return scale;
}

TorchValue stored(const Scale& scale) {
  const auto columns = static_cast<std::int64_t>(scale.mean.size());
  return TorchTuple{{TorchTensor::of_floats({columns}, scale.mean), TorchTensor::of_floats({columns}, scale.inverse)}};
}

TorchValue list_of(const std::vector<std::string>& texts) {
  TorchList list;
  for (const std::string& text : texts) list.items.emplace_back(text);
  return list;
}

std::vector<std::string> texts_of(const TorchValue& value, const std::string& where) {
  std::vector<std::string> texts;
  for (const TorchValue& item : value.list(where)) texts.push_back(item.text(where));
  return texts;
}

std::vector<double> numbers_of(const TorchValue& value, std::size_t count, const std::string& where) {
  std::vector<double> numbers = value.tensor(where).values();
  const bool are_finite = std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
  if (numbers.size() != count || !are_finite)
    throw InputError{where + ": expected " + std::to_string(count) + " finite numbers; found " +
                     std::to_string(numbers.size())};
  return numbers;
}

Scale scale_of(const TorchValue& value, std::size_t columns, const std::string& where) {
  const TorchItems& items = value.list(where);
  if (items.size() != 2) throw InputError{where + ": expected two tensors; found " + std::to_string(items.size())};
  const std::vector<double> mean = numbers_of(items[0], columns, where), inverse = numbers_of(items[1], columns, where);
  return {{mean.begin(), mean.end()}, {inverse.begin(), inverse.end()}};
}

}  // namespace rehearse::detail
