#pragma once
// The content of gzip data, piece by piece.

#include <zlib.h>

#include <array>
#include <cstddef>
#include <functional>

namespace rehearse {

/// Unpacks gzip data (RFC 1952), of one part or of several one after another.
class Inflater {
 public:
  /// Gives the next packed bytes, at most `size`; 0 at their end.
  using Source = std::function<std::size_t(char* bytes, std::size_t size)>;
  enum class State {
    kGoingOn,
    kComplete,     ///< the data ended with a part
    kOtherBehind,  ///< bytes that begin no part follow the last one, or there is no part at all
    kCutShort,
    kDamaged
  };

  explicit Inflater(Source packed);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  Inflater(Inflater&&) = delete;
  Inflater& operator=(Inflater&&) = delete;
  ~Inflater();

  /// The next bytes, at most `size`; 0 once there are none, and state() says why.
  std::size_t read(char* bytes, std::size_t size);
  State state() const { return state_; }

 private:
  void step();
  void fill();
  bool begins_part();

  Source packed_;
  z_stream stream_{};
  std::array<char, std::size_t{1} << 16U> buffer_{};
  State state_ = State::kGoingOn;
  bool is_between_parts_ = true;
};

}  // namespace rehearse
