#include "predictor/detail/pickle.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "predictor/detail/torch_types.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse::detail {
namespace {

constexpr std::size_t kMostDimensions = 64;

enum class Global {
  kOrderedDict,
  kRebuildTensor,
  kRebuildTensorV2,
  kRebuildParameter,
  kSize,
  kFirstStorage  // and those after it, in the order of kTypes
};

}  // namespace

class Pickle::Machine {
 public:
  Machine(std::string_view bytes, std::size_t begin, const std::string& file_name)
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
  void push_integer(std::int64_t value) { push({.kind = Object::Kind::kInteger, .integer = value}); }
  void push_text(std::string_view text) { push({.kind = Object::Kind::kText, .text = std::string{text}}); }
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
  void push_tuple(std::vector<Handle> items) { push({.kind = Object::Kind::kTuple, .items = std::move(items)}); }

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
    if (container->kind != kind || (kind == Object::Kind::kDict && items.size() % 2 != 0))
      fail("the pickle fills something that is no container");
    container->items.insert(container->items.end(), items.begin(), items.end());
  }

  void push_global(const std::string& module, const std::string& name) {
    const auto make = [&](Global global, std::size_t index = 0) {
      push({.kind = Object::Kind::kGlobal,
            .integer = static_cast<std::int64_t>(global) + static_cast<std::int64_t>(index)});
    };
    if (module == "collections" && name == "OrderedDict") return make(Global::kOrderedDict);
    if (module == "torch._utils") {
      if (name == "_rebuild_tensor") return make(Global::kRebuildTensor);
      if (name == "_rebuild_tensor_v2") return make(Global::kRebuildTensorV2);
      if (name == "_rebuild_parameter") return make(Global::kRebuildParameter);
    }
    if (module == "torch") {
      if (name == "Size") return make(Global::kSize);
      for (std::size_t i = 0; i < kTypes.size(); ++i)
        if (name == kTypes[i].storage) return make(Global::kFirstStorage, i);
    }
    throw InputError{
        file_name_ + ": holds an object of the Python class " + in_quotes(module + "." + name) +
        ", which is not read: only tensors, numbers, texts, lists, tuples and dicts are; of a module, save "
        "its state_dict()"};
  }

  std::int64_t integer(const Handle& object) const {
    if (object->kind != Object::Kind::kInteger) fail("expected an integer in a tensor's description");
    return object->integer;
  }
  std::vector<std::int64_t> integers(const Handle& object) const {
    if (object->kind != Object::Kind::kTuple || object->items.size() > kMostDimensions)
      fail("expected a tensor's shape");
    std::vector<std::int64_t> values;
    for (const Handle& item : object->items) values.push_back(integer(item));
    return values;
  }

  /// (storage, offset, shape, strides, ...)
  void push_view(const std::vector<Handle>& arguments) {
    if (arguments.size() < 4 || arguments[0]->kind != Object::Kind::kStorage) fail("expected a tensor's description");
    spend(arguments[0]->text.size());
    for (const std::size_t list : {2U, 3U}) spend(arguments[list]->items.size() * sizeof(std::int64_t));
    push({.kind = Object::Kind::kView,
          .view = {.type = arguments[0]->view.type,
                   .storage = arguments[0]->text,
                   .offset = integer(arguments[1]),
                   .shape = integers(arguments[2]),
                   .strides = integers(arguments[3])}});
  }

  void call() {
    const Handle arguments = pop(), called = pop();
    if (called->kind != Object::Kind::kGlobal || arguments->kind != Object::Kind::kTuple)
      fail("the pickle calls something that is no function");
    const std::vector<Handle>& items = arguments->items;
    switch (static_cast<Global>(called->integer)) {
      case Global::kOrderedDict: {
        Object dict{.kind = Object::Kind::kDict, .is_ordered = true};
        if (!items.empty()) {  // OrderedDict([[key, value], ...])
          if (items.size() != 1 || items[0]->kind != Object::Kind::kList) fail("expected the items of an OrderedDict");
          for (const Handle& item : items[0]->items) {
            if ((item->kind != Object::Kind::kList && item->kind != Object::Kind::kTuple) || item->items.size() != 2)
              fail("expected the items of an OrderedDict");
            // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what is copied
            spend(2 * sizeof(Handle));
            dict.items.insert(dict.items.end(), item->items.begin(), item->items.end());
          }
        }
        return push(std::move(dict));
      }
      case Global::kRebuildTensor:
      case Global::kRebuildTensorV2:
        return push_view(items);
      case Global::kRebuildParameter:
        if (items.empty() || items[0]->kind != Object::Kind::kView) fail("expected a parameter's tensor");
        return stack_.push_back(items[0]);
      case Global::kSize:
        if (items.size() != 1 || items[0]->kind != Object::Kind::kTuple) fail("expected the numbers of a torch.Size");
        return stack_.push_back(items[0]);
      default:
        fail("the pickle calls something that is no function");
    }
  }

  /// ("storage", class, key, device, elements[, part])
  void push_persistent() {
    const Handle id = pop();
    const std::vector<Handle>& items = id->items;
    if (id->kind != Object::Kind::kTuple || items.size() < 5 || items[0]->text != "storage" ||
        items[1]->kind != Object::Kind::kGlobal || items[1]->integer < static_cast<int>(Global::kFirstStorage) ||
        items[2]->kind != Object::Kind::kText)
      fail("expected the description of a tensor's storage");
    if (items.size() > 5 && items[5]->kind != Object::Kind::kNone)
      fail("a storage that is part of another one, as very old files have it, is not read");
    spend(items[2]->text.size());
    const auto type = static_cast<std::size_t>(items[1]->integer - static_cast<std::int64_t>(Global::kFirstStorage));
    push({.kind = Object::Kind::kStorage,
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

  /// A line or two for each operation that a file of tensors needs. Those that push what the pickle holds:
  void step(unsigned char code) {
    switch (code) {
      case 0x80:
        take(1);
        return;  // PROTO
      case 0x95:
        take(8);
        return;  // FRAME
      case '}':
        return push({.kind = Object::Kind::kDict});  // EMPTY_DICT
      case ']':
        return push({.kind = Object::Kind::kList});  // EMPTY_LIST
      case ')':
        return push_tuple({});  // EMPTY_TUPLE
      case '(':
        marks_.push_back(stack_.size());
        return;  // MARK
      case 'N':
        return push({});  // NONE
      case 0x88:
        return push({.kind = Object::Kind::kBoolean, .integer = 1});  // NEWTRUE
      case 0x89:
        return push({.kind = Object::Kind::kBoolean, .integer = 0});  // NEWFALSE
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
        return push({.kind = Object::Kind::kNumber, .number = from_bytes<double>(digits.data())});
      }
      case 'X':
        return push_text(take(take<std::uint32_t>()));  // BINUNICODE
      case 0x8c:
        return push_text(take(take<std::uint8_t>()));  // SHORT_BINUNICODE
      case 'U':
        return push_text(take(take<std::uint8_t>()));  // SHORT_BINSTRING
      default:
        return step_on_stack(code);
    }
  }
  /// Those that work on what is on the stack.
  void step_on_stack(unsigned char code) {
    switch (code) {
      case 't':
        return push_tuple(pop_to_mark());  // TUPLE
      case 0x85:
        return push_tuple(pop_items(1));  // TUPLE1
      case 0x86:
        return push_tuple(pop_items(2));  // TUPLE2
      case 0x87:
        return push_tuple(pop_items(3));  // TUPLE3
      case 'a':
        return extend_last(Object::Kind::kList, 1);  // APPEND
      case 's':
        return extend_last(Object::Kind::kDict, 2);  // SETITEM
      case 'e':
        return extend_marked(Object::Kind::kList);  // APPENDS
      case 'u':
        return extend_marked(Object::Kind::kDict);  // SETITEMS
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

Pickle::Pickle(std::string_view bytes, std::size_t begin, const std::string& file_name)
    : machine_{std::make_unique<Machine>(bytes, begin, file_name)} {}
Pickle::~Pickle() = default;

Handle Pickle::run() { return machine_->run(); }
std::size_t Pickle::next() const { return machine_->next(); }

}  // namespace rehearse::detail
