#include "calibration/microbench/timing.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "sim/base/statistics.hpp"

namespace rehearse::microbench {

namespace {

constexpr int kMostRepeats = 10000;  // within a sample

}  // namespace

double thread_seconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Sample summarize(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  const auto count = static_cast<int>(seconds.size());
  const double least = std::ranges::min(seconds);
  return {.time = median(std::move(seconds)), .least = least, .samples = count};
}

std::vector<double> sample(const std::function<void(int)>& run, const std::function<double()>& clock,
                           const Effort& effort, const std::function<bool()>& is_over) {
  int number = 0;
  run(number++);
  const double start = clock();
  run(number++);
  const double once = std::max(clock() - start, 1e-9);
  const int repeats = static_cast<int>(std::clamp(std::ceil(effort.shortest / once), 1.0, double{kMostRepeats}));
  std::vector<double> samples;
  double spent = 0;
  while (static_cast<int>(samples.size()) < effort.most_samples &&
         (spent < effort.seconds || static_cast<int>(samples.size()) < effort.fewest_samples)) {
    if (is_over && is_over()) {
      if (static_cast<int>(samples.size()) < effort.fewest_samples) samples.clear();
      break;
    }
    const double before = clock();
    for (int i = 0; i < repeats; ++i) run(number++);
    const double taken = clock() - before;
    spent += taken;
    samples.push_back(taken / repeats);
  }
  return samples;
}

}  // namespace rehearse::microbench
