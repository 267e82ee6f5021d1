#pragma once
// A line on stderr about long work, at most once per second, with its rate and an estimate of the time left. On a
// terminal each line takes the place of the one before, and the last one goes with the object.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "sim/base/pinned.hpp"

namespace rehearse {

class Progress : private Pinned {
 public:
  /// `what` is being counted: "steps", "simulations".
  Progress(std::string what, bool is_quiet);
  ~Progress() { clear(); }
  /// Says nothing during the first second. While the next one takes long `within` says what has been done of it, and
  /// `share`, if it is more than done / total, how much of the whole; before the first one both are needed for a line. A total of 0 is not
  /// known.
  void update(std::int64_t done, std::int64_t total, const std::string& within = {}, double share = 0);
  /// Whether update() would say something now: for what takes time to find out.
  bool is_due() const { return !is_quiet_ && std::chrono::steady_clock::now() - last_ >= std::chrono::seconds{1}; }
  /// update(), to be told of counts; refers to this object.
  std::function<void(std::size_t done, std::size_t total)> counter() {
    return [this](std::size_t done, std::size_t total) {
      update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
    };
  }
  /// Prints `text`, of what comes after the last one, if all before took a second.
  void say(const std::string& text);
  /// Ends each line with `text` from now on.
  void note(std::string text) { note_ = std::move(text); }
  /// Takes the line off a terminal, before something else is printed there.
  void clear();
  std::chrono::duration<double> elapsed() const { return std::chrono::steady_clock::now() - start_; }

 private:
  void show(const std::string& line);

  std::string what_, note_;
  bool is_quiet_, is_terminal_, is_shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

/// A duration in the unit that reads best: "90 s", "35 min", "5.2 h", "3.1 days".
std::string duration_text(double seconds);

}  // namespace rehearse
