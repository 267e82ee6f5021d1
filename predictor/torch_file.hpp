#pragma once
// Files of Python's torch.save, read and written without LibTorch: weights, and data sets of tensors.
// A file is a program for Python's pickle machine; here it can only build the values below, so a file from a stranger
// runs no code. Both layouts are read: the zip archive, and the older row of pickles. Written files are zip archives
// that torch.load() accepts, also with weights_only=True (before PyTorch 2, only if no number stands outside a tensor).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rehearse {

enum class TensorType { kFloat32, kFloat64, kFloat16, kBfloat16, kInt64, kInt32, kInt16, kInt8, kUint8, kBoolean };

/// A tensor by rows. The device it was saved from does not matter.
struct TorchTensor {
  TensorType type = TensorType::kFloat32;
  std::vector<std::int64_t> shape;  // empty for a single number
  std::string bytes;                // elements, little-endian, row-major

  static TorchTensor of_floats(std::vector<std::int64_t> shape, std::span<const float> values);
  static TorchTensor of_doubles(std::vector<std::int64_t> shape, std::span<const double> values);
  static TorchTensor of_integers(std::vector<std::int64_t> shape, std::span<const std::int64_t> values);

  std::size_t size() const;  // number of elements
  /// All elements; 64-bit integers beyond 2^53 are rounded.
  std::vector<double> values() const;
  std::vector<float> floats() const;
};

struct TorchValue;
using TorchItems = std::vector<TorchValue>;
struct TorchTuple {
  TorchItems items;
};
struct TorchList {
  TorchItems items;
};
/// A dict or, `is_ordered`, a collections.OrderedDict, as a state_dict is one.
struct TorchDict {
  std::vector<std::pair<TorchValue, TorchValue>> items;
  bool is_ordered = false;
};

/// What a file holds. Tensors are shared between copies.
struct TorchValue {
  using None = std::monostate;
  std::variant<None, bool, std::int64_t, double, std::string, std::shared_ptr<const TorchTensor>, TorchTuple, TorchList,
               TorchDict>
      value;

  TorchValue() = default;  // NOLINTBEGIN(google-explicit-constructor): written as {{"epoch", 3}, {"weights", tensor}}
  template <class T>
  requires(!std::is_same_v<T, TorchValue> && !std::is_same_v<T, TorchTensor>) TorchValue(T from)
      : value{std::move(from)} {}
  TorchValue(int integer) : value{std::int64_t{integer}} {}
  TorchValue(const char* text) : value{std::string{text}} {}
  TorchValue(TorchTensor tensor) : value{std::make_shared<const TorchTensor>(std::move(tensor))} {}
  // NOLINTEND(google-explicit-constructor)
  // Each throws InputError, "<where>: expected a tensor; found a dict", unless the value is of that kind.
  const TorchTensor& tensor(const std::string& where) const;
  const TorchDict& dict(const std::string& where) const;
  const TorchItems& list(const std::string& where) const;  // or tuple
  const std::string& text(const std::string& where) const;
  std::int64_t integer(const std::string& where) const;
  double number(const std::string& where) const;
  bool boolean(const std::string& where) const;

  /// The value of a text key of a dict; nullptr if this is no dict or has no such key.
  const TorchValue* find(std::string_view key) const;
  /// What find() gives; InputError, `<where>: expected the key "x"`, if there is none.
  const TorchValue& at(std::string_view key, const std::string& where) const;
};

/// Throws InputError, "file: what was expected and found", for whatever is no such file, is damaged, is larger than
/// 4 GiB, holds objects of other classes (a whole pickled module, say, instead of its state_dict), or a view outside
/// its storage.
TorchValue load_torch_file(const std::filesystem::path& path);
TorchValue parse_torch_file(std::string_view bytes, const std::string& file_name);
/// The note of to_torch_file(); empty if the file has none. Throws InputError for a damaged archive.
std::string torch_file_note(std::string_view bytes, const std::string& file_name);

/// The bytes of a file that holds `value`: always the same. A `note` that is not empty is a record of its own,
/// "rehearse.json", which Python's torch.load() passes over. Throws InputError if they would be 4 GiB or more.
std::string to_torch_file(const TorchValue& value, std::string_view note = {});
void write_torch_file(const std::filesystem::path& path, const TorchValue& value);

}  // namespace rehearse
