#include "sim/app/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "sim/app/output/document.hpp"

namespace rehearse {

namespace {

constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(std::string what, bool is_quiet)
    : what_{std::move(what)},
      is_quiet_{is_quiet},
      is_terminal_{::isatty(STDERR_FILENO) == 1},
      start_{std::chrono::steady_clock::now()},
      last_{start_} {}

void Progress::clear() {
  if (is_shown_ && is_terminal_) std::fputs(kClearLine, stderr);
  is_shown_ = false;
}

void Progress::update(std::int64_t done, std::int64_t total, const std::string& within, double share) {
  if (!is_due() || (done == 0 && within.empty())) return;
  const auto now = std::chrono::steady_clock::now();
  last_ = now;
  const double spent = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / spent;
  std::string line = std::to_string(done) + (total > 0 ? " of " + std::to_string(total) : "") + " " + what_;
  if (done > 0) line += formatted(", %.*f/s", rate < 10 ? 1 : 0, rate);
  if (!within.empty()) line += ", " + within;
  if (total > 0) share = std::max(share, static_cast<double>(done) / static_cast<double>(total));
  if (share > 0) line += ", " + duration_text(spent * (1 / share - 1)) + " left";
  show(line + note_);
}

void Progress::say(const std::string& text) {
  if (!is_quiet_ && std::chrono::steady_clock::now() - start_ >= std::chrono::seconds{1}) show(text);
}

void Progress::show(const std::string& line) {
  is_shown_ = true;
  if (!is_terminal_) return void(std::fprintf(stderr, "%s\n", line.c_str()));
  winsize terminal{};  // a line that wraps could not be taken back
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &terminal) == 0 && terminal.ws_col > 1;
  std::fprintf(stderr, "%s%.*s", kClearLine, is_known ? terminal.ws_col - 1 : 79, line.c_str());
}

std::string duration_text(double seconds) {
  if (seconds < 120) return formatted("%.0f s", seconds);
  if (seconds < 7200) return formatted("%.0f min", seconds / 60);
  return seconds < 2 * 86400 ? formatted("%.1f h", seconds / 3600) : formatted("%.1f days", seconds / 86400);
}

}  // namespace rehearse
