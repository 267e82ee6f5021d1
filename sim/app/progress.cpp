#include "sim/app/progress.hpp"

#include <array>
#include <cstdio>
#include <utility>

namespace rehearse {

Progress::Progress(std::string what, bool is_quiet)
    : what_{std::move(what)}, is_quiet_{is_quiet}, start_{std::chrono::steady_clock::now()}, last_{start_} {}

void Progress::update(std::int64_t done, std::int64_t total) {
  if (is_quiet_ || done == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::seconds{1}) return;
  last_ = now;
  const double spent = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / spent;
  std::fprintf(stderr, "%lld of %lld %s, %.*f/s, %s left%s\n", static_cast<long long>(done),
               static_cast<long long>(total), what_.c_str(), rate < 10 ? 1 : 0, rate,
               duration_text(static_cast<double>(total - done) / rate).c_str(), note_.c_str());
}

std::string duration_text(double seconds) {
  std::array<char, 32> text{};
  if (seconds < 120)
    std::snprintf(text.data(), text.size(), "%.0f s", seconds);
  else if (seconds < 7200)
    std::snprintf(text.data(), text.size(), "%.0f min", seconds / 60);
  else
    std::snprintf(text.data(), text.size(), "%.1f h", seconds / 3600);
  return text.data();
}

}  // namespace rehearse
