#include "sim/app/progress.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace rehearse {

Progress::Progress(std::string what, bool is_quiet)
    : what_{std::move(what)}, is_quiet_{is_quiet}, start_{std::chrono::steady_clock::now()}, last_{start_} {}

void Progress::update(std::int64_t done, std::int64_t total, const std::string& within, double share) {
  if (is_quiet_ || (done == 0 && within.empty())) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::seconds{1}) return;
  last_ = now;
  const double spent = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / spent;
  std::string line = std::to_string(done) + " of " + std::to_string(total) + " " + what_;
  if (done > 0) {
    std::array<char, 64> speed{};
    std::snprintf(speed.data(), speed.size(), ", %.*f/s", rate < 10 ? 1 : 0, rate);
    line += speed.data();
  }
  if (!within.empty()) line += ", " + within;
  share = std::max(share, static_cast<double>(done) / static_cast<double>(total));
  if (share > 0) line += ", " + duration_text(spent * (1 / share - 1)) + " left";
  std::fprintf(stderr, "%s%s\n", line.c_str(), note_.c_str());
}

void Progress::say(const std::string& text) {
  if (!is_quiet_ && std::chrono::steady_clock::now() - start_ >= std::chrono::seconds{1})
    std::fprintf(stderr, "%s\n", text.c_str());
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
