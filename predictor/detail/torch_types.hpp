#pragma once
// What readers and writers of torch.save's files share: the types of tensors, and numbers as bytes.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

#include "predictor/torch_file.hpp"
#include "sim/base/files.hpp"

namespace rehearse::detail {

static_assert(std::endian::native == std::endian::little, "tensors are kept as they lie in the file");

inline constexpr std::size_t kLargestFile = (std::size_t{1} << 32U) - 1;
inline constexpr std::size_t kLargestTree = 1'000'000;  // values of a file, shared ones counted wherever they appear

inline constexpr const char* kNote = "rehearse.json";  // name of the record of a note

/// Bytes that are copied from a file of `size` bytes at most, repeated ones counted each time.
constexpr std::size_t most_copied(std::size_t size) { return 8 * size + 16 * kMiB; }

struct TypeName {
  TensorType type;
  const char* storage;  // class of the storage in Python's torch
  std::size_t size;     // bytes of an element
};
inline constexpr std::array<TypeName, 10> kTypes{{{TensorType::kFloat32, "FloatStorage", 4},
                                                  {TensorType::kFloat64, "DoubleStorage", 8},
                                                  {TensorType::kFloat16, "HalfStorage", 2},
                                                  {TensorType::kBfloat16, "BFloat16Storage", 2},
                                                  {TensorType::kInt64, "LongStorage", 8},
                                                  {TensorType::kInt32, "IntStorage", 4},
                                                  {TensorType::kInt16, "ShortStorage", 2},
                                                  {TensorType::kInt8, "CharStorage", 1},
                                                  {TensorType::kUint8, "ByteStorage", 1},
                                                  {TensorType::kBoolean, "BoolStorage", 1}}};

inline const TypeName& names_of(TensorType type) { return *std::ranges::find(kTypes, type, &TypeName::type); }

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

}  // namespace rehearse::detail
