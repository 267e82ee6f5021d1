#pragma once
// The characters of a file, plain or packed, as a parser wants them.

#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>

#include "sim/base/unpacked_file.hpp"

namespace rehearse {

/// The characters of a file.
class Characters {
 public:
  Characters(const std::filesystem::path& file, const Budget& budget) : file_{file, budget} { fill(); }

  bool is_at_end() const { return next_ == end_; }
  char get() const { return buffer_[next_]; }
  void advance() {
    if (++next_ == end_) fill();
  }

 private:
  void fill() {
    next_ = 0;
    end_ = file_.read(buffer_.data(), buffer_.size());
  }

  UnpackedFile file_;
  std::array<char, 1 << 16> buffer_{};
  std::size_t next_ = 0, end_ = 0;
};

/// Characters as a parser wants them.
struct CharacterIterator {
  // NOLINTBEGIN(readability-identifier-naming): as the standard library asks for them
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  // NOLINTEND(readability-identifier-naming)

  Characters* characters = nullptr;

  char operator*() const { return characters->get(); }
  CharacterIterator& operator++() {
    characters->advance();
    return *this;
  }
  CharacterIterator operator++(int) {
    const CharacterIterator before = *this;
    ++*this;
    return before;
  }
  bool is_at_end() const { return characters == nullptr || characters->is_at_end(); }
  friend bool operator==(const CharacterIterator& a, const CharacterIterator& b) {
    return a.is_at_end() == b.is_at_end();
  }
};

}  // namespace rehearse
