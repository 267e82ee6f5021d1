#pragma once
// Python's pickle machine as far as files of tensors need it: it builds the objects below and calls no function, so a
// file from a stranger runs no code.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "predictor/torch_file.hpp"

namespace rehearse::detail {

/// A view into a storage, which may be read later.
struct View {
  TensorType type = TensorType::kFloat32;
  std::string storage;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape, strides;
};

struct Object;
using Handle = Object*;  // they live as long as the Pickle that made them

/// An object of the machine. Containers are filled after they have been remembered, so they are shared, not copied.
struct Object {
  enum class Kind { kNone, kBoolean, kInteger, kNumber, kText, kTuple, kList, kDict, kGlobal, kStorage, kView };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // also boolean; of a storage: its elements
  double number = 0.0;
  std::string text;           // also module and name of a global, key of a storage
  std::vector<Handle> items;  // of a dict: key, value, key, value, ...
  bool is_ordered = false;
  View view;
};

/// Pickles of `bytes`, one after another from `begin` on. Throws InputError, "file_name: ... (byte n of the pickle)",
/// at what is damaged, makes or repeats too much, or is of a class that is not read.
class Pickle {
 public:
  Pickle(std::string_view bytes, std::size_t begin, const std::string& file_name);
  ~Pickle();

  /// Runs one pickle, up to its end; next() is then behind it.
  Handle run();
  std::size_t next() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace rehearse::detail
