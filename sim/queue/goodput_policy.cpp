#include "sim/queue/goodput_policy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

namespace rehearse {

namespace {

constexpr std::size_t kGroup = 0;  // of which jobs have their GPUs
constexpr double kOfNothing = 0.004;
constexpr double kLeastGain = 1e-9;  // of a sum of losses

/// A number of GPUs that a job may have, and what it adds to the sum that is to be least.
struct Size {
  int gpus = 0;
  double loss = 0;
};

/// A job's sizes, in ascending order from 0, and the one that it has.
struct Candidate {
  std::vector<Size> sizes;
  std::size_t at = 0;
  int gpus() const { return sizes[at].gpus; }
  double loss() const { return sizes[at].loss; }
};

/// The least that is lost by taking at least so many GPUs from one job, and from another than that.
struct Donor {
  double loss = std::numeric_limits<double>::infinity();
  std::size_t candidate = 0, size = 0;
};
using Donors = std::array<Donor, 2>;

void consider(Donors& donors, const Donor& donor) {
  if (donor.loss < donors[0].loss) {
    if (donor.candidate != donors[0].candidate) donors[1] = donors[0];
    donors[0] = donor;
  } else if (donor.candidate != donors[0].candidate && donor.loss < donors[1].loss) {
    donors[1] = donor;
  }
}

/// By GPUs: of a number that is not there the next larger one holds.
std::map<int, Donors> cheapest_donors(const std::vector<Candidate>& candidates) {
  std::map<int, Donors> donors;
  for (std::size_t c = 0; c < candidates.size(); ++c)
    for (std::size_t s = 0; s < candidates[c].at; ++s) {
      const Size& size = candidates[c].sizes[s];
      consider(donors[candidates[c].gpus() - size.gpus],
               {.loss = size.loss - candidates[c].loss(), .candidate = c, .size = s});
    }
  const Donors* more = nullptr;
  for (auto fewer = donors.rbegin(); fewer != donors.rend(); ++fewer) {
    if (more)
      for (const Donor& donor : *more)
        if (donor.loss < std::numeric_limits<double>::infinity()) consider(fewer->second, donor);
    more = &fewer->second;
  }
  return donors;
}

/// The change of one job, and perhaps of another, that lowers the sum most; for each GPU where some are free.
bool improve(std::vector<Candidate>& candidates, int& free) {
  struct {
    double gain = kLeastGain;
    std::size_t candidate = 0, size = 0;
    const Donor* donor = nullptr;
  } best;
  for (std::size_t c = 0; c < candidates.size(); ++c)
    for (std::size_t s = candidates[c].at + 1; s < candidates[c].sizes.size(); ++s) {
      const int more = candidates[c].sizes[s].gpus - candidates[c].gpus();
      const double gain = (candidates[c].loss() - candidates[c].sizes[s].loss) / more;
      if (more <= free && gain > best.gain) best = {.gain = gain, .candidate = c, .size = s};
    }
  std::map<int, Donors> donors;
  if (best.gain == kLeastGain) {
    donors = cheapest_donors(candidates);
    for (std::size_t c = 0; c < candidates.size(); ++c)
      for (std::size_t s = candidates[c].at + 1; s < candidates[c].sizes.size(); ++s) {
        const int more = candidates[c].sizes[s].gpus - candidates[c].gpus() - free;
        const auto of = donors.lower_bound(more);
        if (more <= 0 || of == donors.end()) continue;
        const Donor& donor = of->second[of->second[0].candidate == c ? 1 : 0];
        const double gain = candidates[c].loss() - candidates[c].sizes[s].loss - donor.loss;
        if (gain > best.gain) best = {.gain = gain, .candidate = c, .size = s, .donor = &donor};
      }
  }
  if (best.gain == kLeastGain) return false;
  const auto set = [&](std::size_t candidate, std::size_t size) {
    free += candidates[candidate].gpus() - candidates[candidate].sizes[size].gpus;
    candidates[candidate].at = size;
  };
  set(best.candidate, best.size);
  if (best.donor) set(best.donor->candidate, best.donor->size);
  return true;
}

class GoodputPolicy : public QueuePolicy {
 public:
  std::vector<Choice> choose(const QueueView& view) override {
    std::vector<Candidate> candidates;
    int free = view.setup.groups[kGroup].gpus();
    std::erase_if(tried_, [&](const auto& job) {
      return std::ranges::find(view.active, job.first, &ActiveJob::job) == view.active.end();
    });
    for (const ActiveJob& active : view.active) {
      if (active.is_running) tried_[active.job] = std::max(tried_[active.job], active.gpus);
      candidates.push_back(candidate(view, active));
      free -= candidates.back().gpus();
    }
    while (improve(candidates, free)) {}
    std::vector<Choice> choices;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].gpus() > 0) choices.push_back({i, kGroup, candidates[i].gpus()});
    std::ranges::stable_sort(choices, std::greater{}, &Choice::gpus);  // large ones find whole machines
    return choices;
  }

 private:
  /// Speeds of the sizes that have one: of an elastic job 1 to 8, multiples of 4, of 8 from 128 on, of 16 from 256 and so
  /// on, and the most, besides those it states.
  const std::map<int, double>& speeds_of(const QueueView& view, std::size_t index) {
    const auto [speeds, is_new] = speeds_.try_emplace(index);
    if (!is_new) return speeds->second;
    const JobKind& kind = view.setup.kinds[index];
    const int most = std::min(kind.max_gpus, view.setup.groups[kGroup].gpus());
    std::vector<int> sizes{kind.gpus};
    for (int gpus = 1; gpus <= most; ++gpus)
      if (gpus <= 8 || gpus % std::max(4, static_cast<int>(std::bit_floor(static_cast<unsigned>(gpus))) / 16) == 0 ||
          gpus == most)
        sizes.push_back(gpus);
    for (const int gpus : sizes)
      if (const double speed = view.speed_of_size(index, kGroup, gpus); speed > 0) speeds->second[gpus] = speed;
    return speeds->second;
  }

  Candidate candidate(const QueueView& view, const ActiveJob& active) {
    const QueuedJob& job = view.setup.jobs[active.job];
    const bool is_elastic = view.setup.kinds[job.kind].max_gpus > 0;
    const std::map<int, double>& speeds = speeds_of(view, job.kind);
    const int jobs = static_cast<int>(view.active.size()), fair = (view.setup.groups[kGroup].gpus() + jobs - 1) / jobs;
    const auto least = speeds.begin(), above = speeds.upper_bound(fair);
    const double fair_speed =
        is_elastic && above != least ? std::prev(above)->second : least->second * fair / least->first;
    const auto tried = tried_.find(active.job);
    const bool has_run = tried != tried_.end();
    const int most = std::max(least->first, has_run ? 2 * tried->second : 1);
    const double age = to_seconds(view.now - job.arrival).value(), restart = to_seconds(view.setup.restart).value();
    const double penalty = has_run && age > 0 ? std::max(0.0, age - active.preemptions * restart) / (age + restart) : 1;
    Candidate found{.sizes = {{0, 1 / kOfNothing}}};
    for (auto size = least; size != speeds.end() && size->first <= most; ++size) {
      const auto [gpus, speed] = *size;
      const bool has_it = gpus == active.gpus;
      const double gained = has_run || !is_elastic ? speed / fair_speed : static_cast<double>(gpus) / fair;
      if (has_it) found.at = found.sizes.size();
      found.sizes.push_back({gpus, 1 / (gained * (has_it ? 1 : penalty) + kOfNothing)});
    }
    return found;
  }

  std::map<std::size_t, std::map<int, double>> speeds_;  // by kind and GPUs
  std::map<std::size_t, int> tried_;                     // by job: the most GPUs that it has had
};

}  // namespace

std::unique_ptr<QueuePolicy> make_goodput_policy(const QueueSetup& /*setup*/) {
  return std::make_unique<GoodputPolicy>();
}

}  // namespace rehearse
