#include "predictor/torch_file.hpp"

#include <algorithm>
#include <map>

#include "predictor/detail/pickle.hpp"
#include "predictor/detail/torch_types.hpp"
#include "predictor/detail/zip.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

using detail::from_bytes;
using detail::Handle;
using detail::names_of;
using detail::Object;
using detail::Pickle;
using detail::View;

constexpr int kDeepest = 64;

using Storages = std::map<std::string, std::string_view, std::less<>>;

class Values {
 public:
  Values(const Storages& storages, std::size_t file_size, const std::string& file_name)
      : storages_{storages}, bytes_left_{detail::most_copied(file_size)}, file_name_{file_name} {}

  TorchValue of(const Handle& object, int depth = 0) {
    if (depth > kDeepest) throw InputError{file_name_ + ": values lie within each other more than 64 deep"};
    if (++count_ > detail::kLargestTree) throw InputError{file_name_ + ": more than a million values"};
    const auto items = [&] {
      TorchItems values;
      for (const Handle& item : object->items) values.push_back(of(item, depth + 1));
      return values;
    };
    switch (object->kind) {
      case Object::Kind::kNone:
        return {};
      case Object::Kind::kBoolean:
        return object->integer != 0;
      case Object::Kind::kInteger:
        return object->integer;
      case Object::Kind::kNumber:
        return object->number;
      case Object::Kind::kText:
        if (object->text.size() > bytes_left_) throw InputError{file_name_ + ": repeats a text too often"};
        bytes_left_ -= object->text.size();
        return object->text;
      case Object::Kind::kTuple:
        return TorchTuple{items()};
      case Object::Kind::kList:
        return TorchList{items()};
      case Object::Kind::kDict: {
        TorchDict dict{.is_ordered = object->is_ordered};
        for (std::size_t i = 0; i + 1 < object->items.size(); i += 2)
          dict.items.emplace_back(of(object->items[i], depth + 1), of(object->items[i + 1], depth + 1));
        return dict;
      }
      case Object::Kind::kView: {
        std::shared_ptr<const TorchTensor>& tensor = tensors_[object];
        if (!tensor) tensor = std::make_shared<const TorchTensor>(resolve(object->view));
        return tensor;
      }
      default:
        throw InputError{file_name_ + ": holds a function or a storage instead of a value"};
    }
  }

 private:
  [[noreturn]] void fail(const View& view, const char* message) const {
    throw InputError{file_name_ + ": the tensor in storage " + in_quotes(view.storage) + " " + message};
  }

  TorchTensor resolve(const View& view) {
    const auto found = storages_.find(view.storage);
    if (found == storages_.end()) fail(view, "has no data in the file");
    if (view.shape.size() != view.strides.size() || view.offset < 0) fail(view, "has a shape without sense");
    const std::size_t size = names_of(view.type).size;
    const std::size_t available = found->second.size() / size;
    std::size_t count = 1, last = static_cast<std::size_t>(view.offset);
    bool is_empty = false;
    for (std::size_t i = 0; i < view.shape.size(); ++i) {
      if (view.shape[i] < 0 || view.strides[i] < 0) fail(view, "has a shape without sense");
      is_empty = is_empty || view.shape[i] == 0;
    }
    TorchTensor tensor{.type = view.type, .shape = view.shape};
    if (is_empty) return tensor;
    for (std::size_t i = 0; i < view.shape.size(); ++i) {
      const auto length = static_cast<std::size_t>(view.shape[i]), stride = static_cast<std::size_t>(view.strides[i]);
      if (__builtin_mul_overflow(count, length, &count) || count > detail::kLargestFile) fail(view, "is too large");
      std::size_t reach = 0;
      if (__builtin_mul_overflow(length - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last))
        fail(view, "reaches beyond its storage");
    }
    if (last >= available) fail(view, "reaches beyond its storage");
    if (count * size > bytes_left_) fail(view, "repeats its storage too often");
    bytes_left_ -= count * size;
    copy(view, found->second.data(), size, count, tensor.bytes);
    return tensor;
  }

  /// Row-major, whatever the strides.
  static void copy(const View& view, const char* storage, std::size_t size, std::size_t count, std::string& to) {
    std::vector<std::int64_t> index(view.shape.size(), 0);
    std::int64_t row_stride = 1;
    bool is_contiguous = true;
    for (std::size_t i = view.shape.size(); i-- > 0;) {
      is_contiguous = is_contiguous && (view.shape[i] == 1 || view.strides[i] == row_stride);
      row_stride *= view.shape[i];
    }
    const auto offset = static_cast<std::size_t>(view.offset);
    if (is_contiguous) {
      to.assign(storage + offset * size, count * size);
      return;
    }
    to.reserve(count * size);
    std::size_t place = offset;
    for (std::size_t k = 0; k < count; ++k) {
      to.append(storage + place * size, size);
      for (std::size_t i = index.size(); i-- > 0;) {
        place += static_cast<std::size_t>(view.strides[i]);
        if (++index[i] < view.shape[i]) break;
        place -= static_cast<std::size_t>(view.strides[i] * view.shape[i]);
        index[i] = 0;
      }
    }
  }

  const Storages& storages_;
  std::size_t bytes_left_;
  const std::string& file_name_;
  std::size_t count_ = 0;
  std::map<const Object*, std::shared_ptr<const TorchTensor>> tensors_;
};

using Records = std::map<std::string, std::string_view>;

Records::const_iterator main_record(const Records& records, const std::string& file_name) {
  const auto main = std::ranges::find_if(
      records, [](const auto& record) { return record.first == "data.pkl" || record.first.ends_with("/data.pkl"); });
  if (main == records.end())
    throw InputError{file_name + ": expected a file of torch.save; found a zip archive without data.pkl"};
  return main;
}

TorchValue parse_archive(std::string_view bytes, const std::string& file_name) {
  const Records records = detail::read_stored_zip(bytes, file_name);
  const auto main = main_record(records, file_name);
  const std::string folder = main->first.substr(0, main->first.size() - std::string_view{"data.pkl"}.size());
  if (records.contains(folder + "constants.pkl"))
    throw InputError{file_name + ": a compiled TorchScript module is not read; save its state_dict()"};
  if (const auto order = records.find(folder + "byteorder"); order != records.end() && order->second != "little")
    throw InputError{file_name + ": its numbers are not little-endian"};
  Storages storages;
  for (const auto& [name, content] : records)
    if (name.starts_with(folder + "data/")) storages.emplace(name.substr(folder.size() + 5), content);
  Pickle pickle{main->second, 0, file_name};
  const Handle root = pickle.run();
  return Values{storages, bytes.size(), file_name}.of(root);
}

/// Five pickles (magic number, version, system, value, keys of the storages), then each storage: element count and
/// bytes.
TorchValue parse_row_of_pickles(std::string_view bytes, const std::string& file_name) {
  Pickle pickle{bytes, 0, file_name};
  pickle.run();
  pickle.run();
  const Handle system = pickle.run();
  for (std::size_t i = 0; i + 1 < system->items.size(); i += 2)
    if (system->items[i]->text == "little_endian" && system->items[i + 1]->integer == 0)
      throw InputError{file_name + ": its numbers are not little-endian"};
  const Handle root = pickle.run(), keys = pickle.run();
  if (keys->kind != Object::Kind::kList) throw InputError{file_name + ": expected the keys of its storages"};

  std::map<std::string, std::size_t> element_sizes;  // by what refers to them
  std::vector<const Object*> open{root};
  std::map<const Object*, bool> seen;
  while (!open.empty()) {
    const Object* object = open.back();
    open.pop_back();
    if (!seen.emplace(object, true).second) continue;
    if (object->kind == Object::Kind::kView) element_sizes[object->view.storage] = names_of(object->view.type).size;
    for (const Handle& item : object->items) open.push_back(item);
  }
  Storages storages;
  std::size_t next = pickle.next();
  for (const Handle& key : keys->items) {
    const auto size = element_sizes.find(key->text);
    if (size == element_sizes.end()) throw InputError{file_name + ": a storage belongs to no tensor"};
    if (bytes.size() - next < 8) throw InputError{file_name + ": ends within its storages"};
    const auto count = from_bytes<std::uint64_t>(bytes.data() + next);
    next += 8;
    if (count > (bytes.size() - next) / size->second) throw InputError{file_name + ": ends within its storages"};
    storages.emplace(key->text, bytes.substr(next, count * size->second));
    next += count * size->second;
  }
  return Values{storages, bytes.size(), file_name}.of(root);
}

}  // namespace

std::string torch_file_note(std::string_view bytes, const std::string& file_name) {
  if (!bytes.starts_with("PK")) return {};
  const Records records = detail::read_stored_zip(bytes, file_name);
  const std::string& main = main_record(records, file_name)->first;
  const auto note = records.find(main.substr(0, main.size() - std::string_view{"data.pkl"}.size()) + detail::kNote);
  return note == records.end() ? std::string{} : std::string{note->second};
}

TorchValue load_torch_file(const std::filesystem::path& path) {
  return parse_torch_file(read_file(path, detail::kLargestFile), path.string());
}

TorchValue parse_torch_file(std::string_view bytes, const std::string& file_name) {
  constexpr std::string_view kMagic = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
  if (bytes.starts_with("PK")) return parse_archive(bytes, file_name);
  if (bytes.starts_with(kMagic)) return parse_row_of_pickles(bytes, file_name);
  throw InputError{file_name + ": expected a file of torch.save; found something else"};
}

}  // namespace rehearse
