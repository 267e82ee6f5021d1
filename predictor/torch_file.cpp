#include "predictor/torch_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include "predictor/detail/zip.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are kept as they lie in the file");

constexpr std::size_t kLargestFile = (std::size_t{1} << 32U) - 1;
constexpr std::size_t kLargestTree = 1'000'000;  // values of a file, shared ones counted wherever they appear
constexpr int kDeepest = 64;
constexpr std::size_t kMostDimensions = 64;

/// Bytes that are copied from a file of `size` bytes at most, repeated ones counted each time.
constexpr std::size_t most_copied(std::size_t size) { return 8 * size + 16 * kMiB; }

struct TypeName {
  TensorType type;
  const char* storage;  // class of the storage in Python's torch
  std::size_t size;     // bytes of an element
};
constexpr std::array<TypeName, 10> kTypes{{{TensorType::float32, "FloatStorage", 4},
                                           {TensorType::float64, "DoubleStorage", 8},
                                           {TensorType::float16, "HalfStorage", 2},
                                           {TensorType::bfloat16, "BFloat16Storage", 2},
                                           {TensorType::int64, "LongStorage", 8},
                                           {TensorType::int32, "IntStorage", 4},
                                           {TensorType::int16, "ShortStorage", 2},
                                           {TensorType::int8, "CharStorage", 1},
                                           {TensorType::uint8, "ByteStorage", 1},
                                           {TensorType::boolean, "BoolStorage", 1}}};

const TypeName& names_of(TensorType type) { return *std::ranges::find(kTypes, type, &TypeName::type); }

template <class T>
T from_bytes(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class T>
void append_bytes(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10U) & 31U, fraction = bits & 1023U;
  double value = 0.0;
  if (exponent == 31)
    value = fraction == 0 ? HUGE_VAL : NAN;
  else
    value = std::ldexp(exponent == 0 ? fraction : fraction + 1024, std::max(exponent, 1) - 25);
  return (bits >> 15U) ? -value : value;
}

double element(TensorType type, const char* bytes) {
  switch (type) {
    case TensorType::float32:
      return from_bytes<float>(bytes);
    case TensorType::float64:
      return from_bytes<double>(bytes);
    case TensorType::float16:
      return half_to_double(from_bytes<std::uint16_t>(bytes));
    case TensorType::bfloat16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(from_bytes<std::uint16_t>(bytes)) << 16U);
    case TensorType::int64:
      return static_cast<double>(from_bytes<std::int64_t>(bytes));
    case TensorType::int32:
      return from_bytes<std::int32_t>(bytes);
    case TensorType::int16:
      return from_bytes<std::int16_t>(bytes);
    case TensorType::int8:
      return from_bytes<std::int8_t>(bytes);
    case TensorType::uint8:
      return from_bytes<std::uint8_t>(bytes);
    case TensorType::boolean:
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

// --- the pickle machine ---

/// A view into a storage, which may be read later.
struct View {
  TensorType type = TensorType::float32;
  std::string storage;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape, strides;
};

struct Object;
using Handle = Object*;  // they live as long as the Pickle that made them

/// An object of the machine. Containers are filled after they have been remembered, so they are shared, not copied.
struct Object {
  enum class Kind { none, boolean, integer, number, text, tuple, list, dict, global, storage, view } kind = Kind::none;
  std::int64_t integer = 0;  // also boolean; of a storage: its elements
  double number = 0.0;
  std::string text;           // also module and name of a global, key of a storage
  std::vector<Handle> items;  // of a dict: key, value, key, value, ...
  bool is_ordered = false;
  View view;
};

enum class Global {
  ordered_dict,
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_parameter,
  size,
  first_storage  // and those after it, in the order of kTypes
};

class Pickle {
 public:
  Pickle(std::string_view bytes, std::size_t begin, const std::string& file_name)
      : bytes_{bytes}, next_{begin}, bytes_left_{most_copied(bytes.size())}, file_name_{file_name} {}

  /// Runs one pickle, up to its end; next() is then behind it.
  Handle run() {
    stack_.clear();
    marks_.clear();
    memo_.clear();
    while (true) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') return pop();
      step(code);
    }
  }

  std::size_t next() const { return next_; }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError{file_name_ + ": " + message + " (byte " + std::to_string(next_) + " of the pickle)"};
  }

  std::string_view take(std::size_t size) {
    if (size > bytes_.size() - next_) fail("the pickle ends too early");
    next_ += size;
    return bytes_.substr(next_ - size, size);
  }
  template <class T>
  T take() {
    return from_bytes<T>(take(sizeof(T)).data());
  }
  std::string_view take_line() {
    const std::size_t end = bytes_.find('\n', next_);
    if (end == std::string_view::npos) fail("the pickle ends too early");
    const std::string_view line = bytes_.substr(next_, end - next_);
    next_ = end + 1;
    return line;
  }

  /// For copies of what was remembered, which a few bytes of the pickle can ask for again and again.
  void spend(std::size_t bytes) {
    if (bytes > bytes_left_) fail("the pickle repeats its content too often");
    bytes_left_ -= bytes;
  }
  void push(Object object) {
    if (arena_.size() >= kLargestTree) fail("the pickle makes more than a million objects");
    arena_.push_back(std::move(object));
    stack_.push_back(&arena_.back());
  }
  void push_integer(std::int64_t value) { push({.kind = Object::Kind::integer, .integer = value}); }
  void push_text(std::string_view text) { push({.kind = Object::Kind::text, .text = std::string{text}}); }
  Handle pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("the pickle takes from an empty stack");
    const Handle top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Handle top() {
    Handle object = pop();
    stack_.push_back(object);
    return object;
  }
  std::vector<Handle> pop_to_mark() {
    if (marks_.empty()) fail("the pickle has no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Handle> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Handle> pop_items(std::size_t count) {
    std::vector<Handle> items(count);
    while (count-- > 0) items[count] = pop();
    return items;
  }
  void push_tuple(std::vector<Handle> items) { push({.kind = Object::Kind::tuple, .items = std::move(items)}); }

  void remember(std::size_t place) {
    if (place > memo_.size() + kLargestTree || place > bytes_.size()) fail("the pickle remembers too much");
    if (place >= memo_.size()) memo_.resize(place + 1);
    memo_[place] = top();
  }
  void recall(std::size_t place) {
    if (place >= memo_.size() || !memo_[place]) fail("the pickle recalls what it never remembered");
    stack_.push_back(memo_[place]);
  }

  void extend(Object::Kind kind, std::vector<Handle> items) {
    const Handle container = top();
    if (container->kind != kind || (kind == Object::Kind::dict && items.size() % 2 != 0))
      fail("the pickle fills something that is no container");
    container->items.insert(container->items.end(), items.begin(), items.end());
  }

  void push_global(const std::string& module, const std::string& name) {
    const auto make = [&](Global global, std::size_t index = 0) {
      push({.kind = Object::Kind::global,
            .integer = static_cast<std::int64_t>(global) + static_cast<std::int64_t>(index)});
    };
    if (module == "collections" && name == "OrderedDict") return make(Global::ordered_dict);
    if (module == "torch._utils") {
      if (name == "_rebuild_tensor") return make(Global::rebuild_tensor);
      if (name == "_rebuild_tensor_v2") return make(Global::rebuild_tensor_v2);
      if (name == "_rebuild_parameter") return make(Global::rebuild_parameter);
    }
    if (module == "torch") {
      if (name == "Size") return make(Global::size);
      for (std::size_t i = 0; i < kTypes.size(); ++i)
        if (name == kTypes[i].storage) return make(Global::first_storage, i);
    }
    throw InputError{
        file_name_ + ": holds an object of the Python class " + in_quotes(module + "." + name) +
        ", which is not read: only tensors, numbers, texts, lists, tuples and dicts are; of a module, save "
        "its state_dict()"};
  }

  std::int64_t integer(const Handle& object) const {
    if (object->kind != Object::Kind::integer) fail("expected an integer in a tensor's description");
    return object->integer;
  }
  std::vector<std::int64_t> integers(const Handle& object) const {
    if (object->kind != Object::Kind::tuple || object->items.size() > kMostDimensions)
      fail("expected a tensor's shape");
    std::vector<std::int64_t> values;
    for (const Handle& item : object->items) values.push_back(integer(item));
    return values;
  }

  /// (storage, offset, shape, strides, ...)
  void push_view(const std::vector<Handle>& arguments) {
    if (arguments.size() < 4 || arguments[0]->kind != Object::Kind::storage) fail("expected a tensor's description");
    spend(arguments[0]->text.size());
    for (const std::size_t list : {2U, 3U}) spend(arguments[list]->items.size() * sizeof(std::int64_t));
    push({.kind = Object::Kind::view,
          .view = {.type = arguments[0]->view.type,
                   .storage = arguments[0]->text,
                   .offset = integer(arguments[1]),
                   .shape = integers(arguments[2]),
                   .strides = integers(arguments[3])}});
  }

  void call() {
    const Handle arguments = pop(), called = pop();
    if (called->kind != Object::Kind::global || arguments->kind != Object::Kind::tuple)
      fail("the pickle calls something that is no function");
    const std::vector<Handle>& items = arguments->items;
    switch (static_cast<Global>(called->integer)) {
      case Global::ordered_dict: {
        Object dict{.kind = Object::Kind::dict, .is_ordered = true};
        if (!items.empty()) {  // OrderedDict([[key, value], ...])
          if (items.size() != 1 || items[0]->kind != Object::Kind::list) fail("expected the items of an OrderedDict");
          for (const Handle& item : items[0]->items) {
            if ((item->kind != Object::Kind::list && item->kind != Object::Kind::tuple) || item->items.size() != 2)
              fail("expected the items of an OrderedDict");
            spend(2 * sizeof(Handle));
            dict.items.insert(dict.items.end(), item->items.begin(), item->items.end());
          }
        }
        return push(std::move(dict));
      }
      case Global::rebuild_tensor:
      case Global::rebuild_tensor_v2:
        return push_view(items);
      case Global::rebuild_parameter:
        if (items.empty() || items[0]->kind != Object::Kind::view) fail("expected a parameter's tensor");
        return stack_.push_back(items[0]);
      case Global::size:
        if (items.size() != 1 || items[0]->kind != Object::Kind::tuple) fail("expected the numbers of a torch.Size");
        return stack_.push_back(items[0]);
      default:
        fail("the pickle calls something that is no function");
    }
  }

  /// ("storage", class, key, device, elements[, part])
  void push_persistent() {
    const Handle id = pop();
    const std::vector<Handle>& items = id->items;
    if (id->kind != Object::Kind::tuple || items.size() < 5 || items[0]->text != "storage" ||
        items[1]->kind != Object::Kind::global || items[1]->integer < static_cast<int>(Global::first_storage) ||
        items[2]->kind != Object::Kind::text)
      fail("expected the description of a tensor's storage");
    if (items.size() > 5 && items[5]->kind != Object::Kind::none)
      fail("a storage that is part of another one, as very old files have it, is not read");
    spend(items[2]->text.size());
    const auto type = static_cast<std::size_t>(items[1]->integer - static_cast<std::int64_t>(Global::first_storage));
    push({.kind = Object::Kind::storage,
          .integer = integer(items[4]),
          .text = items[2]->text,
          .view = {.type = kTypes[type].type}});
  }

  /// Little-endian two's complement of up to 8 bytes that count; the magic number of the older layout is longer.
  void push_long(std::string_view digits) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(digits.size(), 8); ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    if (!digits.empty() && digits.size() < 8 && (static_cast<unsigned char>(digits.back()) & 0x80U))
      value |= ~std::uint64_t{0} << (8 * digits.size());
    push_integer(static_cast<std::int64_t>(value));
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:
        take(1);
        return;  // PROTO
      case 0x95:
        take(8);
        return;  // FRAME
      case '}':
        return push({.kind = Object::Kind::dict});  // EMPTY_DICT
      case ']':
        return push({.kind = Object::Kind::list});  // EMPTY_LIST
      case ')':
        return push_tuple({});  // EMPTY_TUPLE
      case '(':
        marks_.push_back(stack_.size());
        return;  // MARK
      case 'N':
        return push({});  // NONE
      case 0x88:
        return push({.kind = Object::Kind::boolean, .integer = 1});  // NEWTRUE
      case 0x89:
        return push({.kind = Object::Kind::boolean, .integer = 0});  // NEWFALSE
      case 'K':
        return push_integer(take<std::uint8_t>());  // BININT1
      case 'M':
        return push_integer(take<std::uint16_t>());  // BININT2
      case 'J':
        return push_integer(take<std::int32_t>());  // BININT
      case 0x8a:
        return push_long(take(take<std::uint8_t>()));  // LONG1
      case 'G': {                                      // BINFLOAT, big-endian
        std::string digits{take(8)};
        std::ranges::reverse(digits);
        return push({.kind = Object::Kind::number, .number = from_bytes<double>(digits.data())});
      }
      case 'X':
        return push_text(take(take<std::uint32_t>()));  // BINUNICODE
      case 0x8c:
        return push_text(take(take<std::uint8_t>()));  // SHORT_BINUNICODE
      case 'U':
        return push_text(take(take<std::uint8_t>()));  // SHORT_BINSTRING
      case 't':
        return push_tuple(pop_to_mark());  // TUPLE
      case 0x85:
        return push_tuple(pop_items(1));  // TUPLE1
      case 0x86:
        return push_tuple(pop_items(2));  // TUPLE2
      case 0x87:
        return push_tuple(pop_items(3));  // TUPLE3
      case 'a':
        return extend_last(Object::Kind::list, 1);  // APPEND
      case 's':
        return extend_last(Object::Kind::dict, 2);  // SETITEM
      case 'e':
        return extend_marked(Object::Kind::list);  // APPENDS
      case 'u':
        return extend_marked(Object::Kind::dict);  // SETITEMS
      case 'q':
        return remember(take<std::uint8_t>());  // BINPUT
      case 'r':
        return remember(take<std::uint32_t>());  // LONG_BINPUT
      case 0x94:
        return remember(memo_.size());  // MEMOIZE
      case 'h':
        return recall(take<std::uint8_t>());  // BINGET
      case 'j':
        return recall(take<std::uint32_t>());  // LONG_BINGET
      case 'c': {                              // GLOBAL
        const std::string module{take_line()};
        return push_global(module, std::string{take_line()});
      }
      case 0x93: {  // STACK_GLOBAL
        const std::vector<Handle> names = pop_items(2);
        return push_global(names[0]->text, names[1]->text);
      }
      case 'Q':
        return push_persistent();  // BINPERSID
      case 'R':
        return call();  // REDUCE
      case 'b':
        pop();
        top();
        return;  // BUILD: attributes, such as a state_dict's _metadata, are not kept
      default: {
        constexpr std::string_view kDigits = "0123456789abcdef";
        fail(std::string{"the pickle has the operation 0x"} + kDigits[code >> 4U] + kDigits[code & 15U] +
             ", which no file of tensors needs");
      }
    }
  }
  void extend_last(Object::Kind kind, std::size_t count) {
    std::vector<Handle> items = pop_items(count);
    extend(kind, std::move(items));
  }
  void extend_marked(Object::Kind kind) {
    std::vector<Handle> items = pop_to_mark();
    extend(kind, std::move(items));
  }

  std::string_view bytes_;
  std::size_t next_;
  std::size_t bytes_left_;
  const std::string& file_name_;
  std::deque<Object> arena_;
  std::vector<Handle> stack_, memo_;
  std::vector<std::size_t> marks_;
};

// --- from objects to values ---

using Storages = std::map<std::string, std::string_view, std::less<>>;

class Values {
 public:
  Values(const Storages& storages, std::size_t file_size, const std::string& file_name)
      : storages_{storages}, bytes_left_{most_copied(file_size)}, file_name_{file_name} {}

  TorchValue of(const Handle& object, int depth = 0) {
    if (depth > kDeepest) throw InputError{file_name_ + ": values lie within each other more than 64 deep"};
    if (++count_ > kLargestTree) throw InputError{file_name_ + ": more than a million values"};
    const auto items = [&] {
      TorchItems values;
      for (const Handle& item : object->items) values.push_back(of(item, depth + 1));
      return values;
    };
    switch (object->kind) {
      case Object::Kind::none:
        return {};
      case Object::Kind::boolean:
        return object->integer != 0;
      case Object::Kind::integer:
        return object->integer;
      case Object::Kind::number:
        return object->number;
      case Object::Kind::text:
        if (object->text.size() > bytes_left_) throw InputError{file_name_ + ": repeats a text too often"};
        bytes_left_ -= object->text.size();
        return object->text;
      case Object::Kind::tuple:
        return TorchTuple{items()};
      case Object::Kind::list:
        return TorchList{items()};
      case Object::Kind::dict: {
        TorchDict dict{.is_ordered = object->is_ordered};
        for (std::size_t i = 0; i + 1 < object->items.size(); i += 2)
          dict.items.emplace_back(of(object->items[i], depth + 1), of(object->items[i + 1], depth + 1));
        return dict;
      }
      case Object::Kind::view: {
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
      if (__builtin_mul_overflow(count, length, &count) || count > kLargestFile) fail(view, "is too large");
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

TorchValue parse_archive(std::string_view bytes, const std::string& file_name) {
  const std::map<std::string, std::string_view> records = detail::read_stored_zip(bytes, file_name);
  const auto main = std::ranges::find_if(
      records, [](const auto& record) { return record.first == "data.pkl" || record.first.ends_with("/data.pkl"); });
  if (main == records.end())
    throw InputError{file_name + ": expected a file of torch.save; found a zip archive without data.pkl"};
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
  if (keys->kind != Object::Kind::list) throw InputError{file_name + ": expected the keys of its storages"};

  std::map<std::string, std::size_t> element_sizes;  // by what refers to them
  std::vector<const Object*> open{root};
  std::map<const Object*, bool> seen;
  while (!open.empty()) {
    const Object* object = open.back();
    open.pop_back();
    if (!seen.emplace(object, true).second) continue;
    if (object->kind == Object::Kind::view) element_sizes[object->view.storage] = names_of(object->view.type).size;
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

// --- writing ---

class Writer {
 public:
  std::string file(const TorchValue& value) {
    pickle_ = "\x80\x02";
    add(value);
    pickle_ += '.';
    std::vector<std::pair<std::string, std::string_view>> records{{"archive/data.pkl", pickle_},
                                                                  {"archive/byteorder", "little"}};
    for (std::size_t i = 0; i < storages_.size(); ++i)
      records.emplace_back("archive/data/" + std::to_string(i), storages_[i]->bytes);
    records.emplace_back("archive/version", "3\n");
    return detail::write_stored_zip(records);
  }

 private:
  void add(const TorchValue& value) {
    std::visit([this](const auto& held) { add(held); }, value.value);
  }
  void add(TorchValue::None) { pickle_ += 'N'; }
  void add(bool value) { pickle_ += value ? '\x88' : '\x89'; }
  void add(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) {
      pickle_ += 'J';
      append_bytes(pickle_, static_cast<std::int32_t>(value));
    } else {
      pickle_ += "\x8a\x08";
      append_bytes(pickle_, value);
    }
  }
  void add(double value) {
    std::string digits;
    append_bytes(digits, value);
    std::ranges::reverse(digits);
    pickle_ += 'G' + digits;
  }
  void add(const std::string& text) {
    pickle_ += 'X';
    append_bytes(pickle_, static_cast<std::uint32_t>(text.size()));
    pickle_ += text;
  }
  void add_all(const TorchItems& items) {
    for (const TorchValue& item : items) add(item);
  }
  void add(const TorchTuple& tuple) {
    pickle_ += '(';
    add_all(tuple.items);
    pickle_ += 't';
  }
  void add(const TorchList& list) {
    pickle_ += "](";
    add_all(list.items);
    pickle_ += 'e';
  }
  void add(const TorchDict& dict) {
    pickle_ += dict.is_ordered ? "ccollections\nOrderedDict\n)R" : "}";
    pickle_ += '(';
    for (const auto& [key, value] : dict.items) {
      add(key);
      add(value);
    }
    pickle_ += 'u';
  }
  void add(const std::shared_ptr<const TorchTensor>& tensor) {
    const TypeName& type = names_of(tensor->type);
    pickle_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    add(std::string{"storage"});
    pickle_ += std::string{"ctorch\n"} + type.storage + "\n";
    add(std::to_string(storages_.size()));
    add(std::string{"cpu"});
    add(static_cast<std::int64_t>(tensor->size()));
    pickle_ += "tQ";
    add(std::int64_t{0});
    std::vector<std::int64_t> strides(tensor->shape.size(), 1);
    for (std::size_t i = strides.size(); i-- > 1;)
      strides[i - 1] = strides[i] * std::max<std::int64_t>(tensor->shape[i], 1);
    for (const std::vector<std::int64_t>* numbers : {&tensor->shape, &std::as_const(strides)}) {
      pickle_ += '(';
      for (const std::int64_t number : *numbers) add(number);
      pickle_ += 't';
    }
    pickle_ +=
        "\x89"
        "ccollections\nOrderedDict\n)RtR";
    storages_.push_back(tensor);
  }

  std::string pickle_;
  std::vector<std::shared_ptr<const TorchTensor>> storages_;
};

const char* kind_of(const TorchValue& value) {
  constexpr std::array<const char*, 9> kKinds{"None",     "a bool",  "an integer", "a number", "a text",
                                              "a tensor", "a tuple", "a list",     "a dict"};
  return kKinds[value.value.index()];
}

template <class T>
const T& held(const TorchValue& value, const char* expected, const std::string& where) {
  if (const T* found = std::get_if<T>(&value.value)) return *found;
  throw InputError{where + ": expected " + expected + "; found " + kind_of(value)};
}

}  // namespace

TorchTensor TorchTensor::of_floats(std::vector<std::int64_t> shape, std::span<const float> values) {
  return tensor_of(TensorType::float32, std::move(shape), values);
}
TorchTensor TorchTensor::of_doubles(std::vector<std::int64_t> shape, std::span<const double> values) {
  return tensor_of(TensorType::float64, std::move(shape), values);
}
TorchTensor TorchTensor::of_integers(std::vector<std::int64_t> shape, std::span<const std::int64_t> values) {
  return tensor_of(TensorType::int64, std::move(shape), values);
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

TorchValue load_torch_file(const std::filesystem::path& path) {
  return parse_torch_file(read_file(path, kLargestFile), path.string());
}

TorchValue parse_torch_file(std::string_view bytes, const std::string& file_name) {
  constexpr std::string_view kMagic = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
  if (bytes.starts_with("PK")) return parse_archive(bytes, file_name);
  if (bytes.starts_with(kMagic)) return parse_row_of_pickles(bytes, file_name);
  throw InputError{file_name + ": expected a file of torch.save; found something else"};
}

std::string to_torch_file(const TorchValue& value) { return Writer{}.file(value); }

void write_torch_file(const std::filesystem::path& path, const TorchValue& value) {
  write_file(path, to_torch_file(value));
}

}  // namespace rehearse
