#pragma once
// A line on stderr about long work, at most once per second, with its rate and an
// estimate of the time left.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace rehearse {

class Progress {
 public:
  /// `what` is being counted: "steps", "simulations".
  Progress(std::string what, bool is_quiet);
  /// Says nothing during the first second.
  void update(std::int64_t done, std::int64_t total);
  /// Ends the lines from now on.
  void note(std::string text) { note_ = std::move(text); }
  std::chrono::duration<double> elapsed() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::string what_, note_;
  bool is_quiet_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

/// "90 s", "35 min", "5.2 h".
std::string duration_text(double seconds);

}  // namespace rehearse
