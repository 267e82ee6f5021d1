#include "tests/fuzz/targets/changed_state.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/fuzz/targets/require.hpp"
#include "tests/support/synthetic_dataset.hpp"

namespace rehearse::fuzz {

std::uint8_t Bytes::next() {
  if (text_.empty()) return 0;
  const auto byte = static_cast<std::uint8_t>(text_.front());
  text_.remove_prefix(1);
  return byte;
}

std::uint64_t Bytes::eight() {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | next();
  return value;
}

double Bytes::number() {
  constexpr std::array kNumbers{0.0, -1.0, 1e-300, 1e300, HUGE_VAL, -HUGE_VAL, 1e9, 0.5};
  const std::uint8_t which = next();
  if (which < kNumbers.size()) return kNumbers[which];
  return which == kNumbers.size() ? std::nan("") : std::bit_cast<double>(eight());
}

namespace {

void change(TorchTensor& tensor, Bytes& bytes) {
  switch (bytes.below(4)) {
    case 0: {  // a number, as the tensor's type has it
      std::vector<double> values = tensor.values();
      if (values.empty()) return;
      const std::size_t at = (bytes.below(256) * 256 + bytes.below(256)) % values.size();
      values[at] = bytes.number();
      if (tensor.type == TensorType::kFloat32)
        tensor = TorchTensor::of_floats(tensor.shape, std::vector<float>(values.begin(), values.end()));
      else
        tensor = TorchTensor::of_doubles(tensor.shape, values);
      return;
    }
    case 1: {  // another shape, of numbers that are 0 or as they were
      if (tensor.shape.empty()) tensor.shape.push_back(1);
      tensor.shape[bytes.below(tensor.shape.size())] = bytes.next() % 20;
      std::vector<double> values = tensor.values();
      std::size_t size = 1;
      for (const std::int64_t count : tensor.shape) size *= static_cast<std::size_t>(count);
      values.resize(std::min<std::size_t>(size, 1 << 16));
      if (values.size() < size) return;
      tensor = TorchTensor::of_doubles(tensor.shape, values);
      return;
    }
    case 2:  // as one row
      tensor.shape = {static_cast<std::int64_t>(tensor.size())};
      return;
    default: {  // whole numbers
      std::vector<std::int64_t> values;
      for (const double value : tensor.values()) values.push_back(std::abs(value) < 1e15 ? std::llround(value) : 7);
      tensor = TorchTensor::of_integers(tensor.shape, values);
    }
  }
}

TorchValue some_value(Bytes& bytes) {
  switch (bytes.below(7)) {
    case 0:
      return {};
    case 1:
      return bytes.next() % 2 == 0;
    case 2:
      return std::bit_cast<std::int64_t>(bytes.eight());
    case 3:
      return bytes.number();
    case 4:
      return std::string(bytes.below(4), static_cast<char>(bytes.next()));
    case 5:
      return TorchList{};
    default:
      return static_cast<std::int64_t>(bytes.next());
  }
}

/// One change somewhere below `value`.
void change(TorchValue& value, Bytes& bytes) {
  auto* const tensor = std::get_if<std::shared_ptr<const TorchTensor>>(&value.value);
  if (tensor != nullptr && bytes.next() % 4 > 0) {
    TorchTensor changed = **tensor;
    change(changed, bytes);
    value = std::move(changed);
    return;
  }
  const auto change_item = [&](auto& items, auto&& value_of) {
    if (items.empty()) return;
    const std::size_t at = bytes.below(items.size());
    const auto place = items.begin() + static_cast<std::ptrdiff_t>(at);
    switch (bytes.below(8)) {
      case 0:
        items.erase(place);
        break;
      case 1:
        items.push_back(*place);
        break;
      case 2:
        std::swap(value_of(*place), value_of(items[bytes.below(items.size())]));
        break;
      default:
        change(value_of(*place), bytes);
    }
  };
  const auto itself = [](TorchValue& item) -> TorchValue& { return item; };
  if (auto* list = std::get_if<TorchList>(&value.value); list != nullptr && !list->items.empty())
    return change_item(list->items, itself);
  if (auto* tuple = std::get_if<TorchTuple>(&value.value); tuple != nullptr && !tuple->items.empty())
    return change_item(tuple->items, itself);
  if (auto* dict = std::get_if<TorchDict>(&value.value); dict != nullptr && !dict->items.empty())
    return change_item(dict->items, [](auto& item) -> TorchValue& { return item.second; });
  value = some_value(bytes);
}

}  // namespace

TorchValue changed(TorchValue state, Bytes& bytes) {
  for (int i = 0; i < 16 && !bytes.is_at_end(); ++i) change(state, bytes);
  return state;
}

const Dataset& small_dataset() {
  static const Dataset data = test::synthetic_dataset(2);
  return data;
}

void require_sound_prediction(const PredictedMetrics& predicted, bool may_be_negative) {
  require(predicted.labels.size() == small_dataset().labels.size(), "there is a prediction for each label");
  for (const LabelPrediction& label : predicted.labels) {
    require(may_be_negative || !(label.value < 0), "labels are not negative");
    require(!(label.low > label.value) && !(label.high < label.value), "a prediction is in its interval");
  }
}

}  // namespace rehearse::fuzz
