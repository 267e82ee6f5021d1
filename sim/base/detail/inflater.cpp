#include "sim/base/detail/inflater.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace rehearse {

Inflater::Inflater(Source packed) : packed_{std::move(packed)} {
  constexpr int kGzipFormat = 15 + 16;  // largest window, gzip header
  if (::inflateInit2(&stream_, kGzipFormat) != Z_OK) throw std::bad_alloc{};
}

Inflater::~Inflater() { ::inflateEnd(&stream_); }

std::size_t Inflater::read(char* bytes, std::size_t size) {
  stream_.next_out = reinterpret_cast<Bytef*>(bytes);
  stream_.avail_out = static_cast<uInt>(std::min(size, std::size_t{1} << 30U));
  const uInt wanted = stream_.avail_out;
  while (state_ == State::kGoingOn && stream_.avail_out == wanted && wanted > 0) step();
  return state_ == State::kGoingOn ? wanted - stream_.avail_out : 0;
}

void Inflater::step() {
  if (stream_.avail_in == 0) fill();
  if (is_between_parts_ && !begins_part()) {
    state_ = stream_.avail_in == 0 ? State::kComplete : State::kOtherBehind;
    return;
  }
  if (stream_.avail_in == 0) {
    state_ = State::kCutShort;
    return;
  }
  is_between_parts_ = false;
  const int result = ::inflate(&stream_, Z_NO_FLUSH);
  if (result == Z_STREAM_END) is_between_parts_ = true;
  if ((result != Z_OK && result != Z_STREAM_END) || (is_between_parts_ && ::inflateReset(&stream_) != Z_OK))
    state_ = State::kDamaged;
}

void Inflater::fill() {
  stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
  stream_.avail_in = static_cast<uInt>(packed_(buffer_.data(), buffer_.size()));
}

bool Inflater::begins_part() {
  if (stream_.avail_in == 1) {  // its other half comes with the next bytes
    buffer_[0] = static_cast<char>(*stream_.next_in);
    const std::size_t count = packed_(buffer_.data() + 1, buffer_.size() - 1);
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(count + 1);
  }
  return stream_.avail_in >= 2 && stream_.next_in[0] == 0x1f && stream_.next_in[1] == 0x8b;
}

}  // namespace rehearse
