#include "sim/app/progress.hpp"

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
  const double left = spent * static_cast<double>(total - done) / static_cast<double>(done);
  std::fprintf(stderr, "%lld of %lld %s, %.0f s left\n", static_cast<long long>(done), static_cast<long long>(total),
               what_.c_str(), left);
}

}  // namespace rehearse
