// Values of torch.save's files, once they are read.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "predictor/detail/torch_types.hpp"
#include "predictor/torch_file.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

using detail::from_bytes;
using detail::names_of;

double half_to_double(std::uint16_t bits) {
  const auto exponent = static_cast<int>((bits >> 10U) & 31U), fraction = static_cast<int>(bits & 1023U);
  double value = 0.0;
  if (exponent == 31)
    value = fraction == 0 ? HUGE_VAL : NAN;
  else
    value = std::ldexp(exponent == 0 ? fraction : fraction + 1024, std::max(exponent, 1) - 25);
  return (bits >> 15U) ? -value : value;
}

double element(TensorType type, const char* bytes) {
  switch (type) {
    case TensorType::kFloat32:
      return from_bytes<float>(bytes);
    case TensorType::kFloat64:
      return from_bytes<double>(bytes);
    case TensorType::kFloat16:
      return half_to_double(from_bytes<std::uint16_t>(bytes));
    case TensorType::kBfloat16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(from_bytes<std::uint16_t>(bytes)) << 16U);
    case TensorType::kInt64:
      return static_cast<double>(from_bytes<std::int64_t>(bytes));
    case TensorType::kInt32:
      return from_bytes<std::int32_t>(bytes);
    case TensorType::kInt16:
      return from_bytes<std::int16_t>(bytes);
    case TensorType::kInt8:
      return from_bytes<std::int8_t>(bytes);
    case TensorType::kUint8:
      return from_bytes<std::uint8_t>(bytes);
    case TensorType::kBoolean:
      return from_bytes<std::uint8_t>(bytes) != 0 ? 1.0 : 0.0;
  }
  return 0.0;
}

template <class T>
TorchTensor tensor_of(TensorType type, std::vector<std::int64_t> shape, std::span<const T> values) {
  TorchTensor tensor{.type = type, .shape = std::move(shape)};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  if (tensor.size() != values.size()) throw std::invalid_argument{"a tensor's shape and number of values differ"};
  return tensor;
}

const char* kind_of(const TorchValue& value) {
  constexpr std::array<const char*, 9> kKindNames{"None",     "a bool",  "an integer", "a number", "a text",
                                                  "a tensor", "a tuple", "a list",     "a dict"};
  return kKindNames[value.value.index()];
}

template <class T>
const T& held(const TorchValue& value, const char* expected, const std::string& where) {
  if (const T* found = std::get_if<T>(&value.value)) return *found;
  throw InputError{where + ": expected " + expected + "; found " + kind_of(value)};
}

}  // namespace

TorchTensor TorchTensor::of_floats(std::vector<std::int64_t> shape, std::span<const float> values) {
  return tensor_of(TensorType::kFloat32, std::move(shape), values);
}
TorchTensor TorchTensor::of_doubles(std::vector<std::int64_t> shape, std::span<const double> values) {
  return tensor_of(TensorType::kFloat64, std::move(shape), values);
}
TorchTensor TorchTensor::of_integers(std::vector<std::int64_t> shape, std::span<const std::int64_t> values) {
  return tensor_of(TensorType::kInt64, std::move(shape), values);
}

std::size_t TorchTensor::size() const { return bytes.size() / names_of(type).size; }

std::vector<double> TorchTensor::values() const {
  const std::size_t width = names_of(type).size;
  std::vector<double> result(size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = element(type, bytes.data() + i * width);
  return result;
}

std::vector<float> TorchTensor::floats() const {
  const std::size_t width = names_of(type).size;
  std::vector<float> result(size());
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<float>(element(type, bytes.data() + i * width));
  return result;
}

const TorchTensor& TorchValue::tensor(const std::string& where) const {
  return *held<std::shared_ptr<const TorchTensor>>(*this, "a tensor", where);
}
const TorchDict& TorchValue::dict(const std::string& where) const { return held<TorchDict>(*this, "a dict", where); }
const TorchItems& TorchValue::list(const std::string& where) const {
  if (const auto* tuple = std::get_if<TorchTuple>(&value)) return tuple->items;
  return held<TorchList>(*this, "a list", where).items;
}
const std::string& TorchValue::text(const std::string& where) const {
  return held<std::string>(*this, "a text", where);
}
std::int64_t TorchValue::integer(const std::string& where) const {
  return held<std::int64_t>(*this, "an integer", where);
}
double TorchValue::number(const std::string& where) const {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  return held<double>(*this, "a number", where);
}
bool TorchValue::boolean(const std::string& where) const { return held<bool>(*this, "a bool", where); }

const TorchValue* TorchValue::find(std::string_view key) const {
  const auto* dict = std::get_if<TorchDict>(&value);
  if (dict == nullptr) return nullptr;
  const auto found = std::ranges::find_if(dict->items, [&](const auto& item) {
    const auto* text = std::get_if<std::string>(&item.first.value);
    return text != nullptr && *text == key;
  });
  return found == dict->items.end() ? nullptr : &found->second;
}

const TorchValue& TorchValue::at(std::string_view key, const std::string& where) const {
  dict(where);
  const TorchValue* found = find(key);
  if (found == nullptr) throw InputError{where + ": expected the key " + in_quotes(key)};
  return *found;
}

}  // namespace rehearse
