#include "sim/queue/shared_links.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace rehearse {

namespace {

constexpr int kMostRounds = 1000;
constexpr double kTolerance = 1e-9;  // of a slowdown

/// A job as one link sees it.
struct Visit {
  std::size_t user = 0;
  double sends_s = 0;     // V
  double slowdown = 1;    // of what it sends here
  double computes_s = 0;  // Z
};

/// log G of all visits but one (or of all), which are added one by one: g_k is the sum over subsets of k jobs.
double log_g(std::span<const Visit> visits, std::size_t but) {
  std::vector<double> g{1};
  double log_scale = 0;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    if (i == but) continue;
    g.push_back(0);
    for (std::size_t k = g.size(); k-- > 0;)
      g[k] = g[k] * visits[i].computes_s + (k == 0 ? 0 : static_cast<double>(k) * visits[i].sends_s * g[k - 1]);
    const double largest = *std::ranges::max_element(g);
    for (double& value : g) value /= largest;
    log_scale += std::log(largest);
  }
  double sum = 0;
  for (const double value : g) sum += value;
  return log_scale + std::log(sum);
}

/// Slowdowns of one link's users.
void share(std::vector<Visit>& visits) {
  const double of_all = log_g(visits, visits.size());
  std::vector<double> slowdowns;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const double step_s = std::exp(of_all - log_g(visits, i));
    slowdowns.push_back(
        std::clamp((step_s - visits[i].computes_s) / visits[i].sends_s, 1.0, static_cast<double>(visits.size())));
  }
  for (std::size_t i = 0; i < visits.size(); ++i) visits[i].slowdown = std::max(visits[i].slowdown, slowdowns[i]);
}

}  // namespace

std::vector<double> slowdowns_on_links(std::span<const LinkUser> users) {
  std::map<std::size_t, std::vector<Visit>> links;
  for (std::size_t u = 0; u < users.size(); ++u)
    for (const LinkUser::Use& use : users[u].uses) links[use.link].push_back({.user = u, .sends_s = use.alone_s});
  std::erase_if(links, [](const auto& link) { return link.second.size() < 2; });
  std::vector<double> slowdowns(users.size(), 1);
  // A longer step of one job never shortens another's, so that slowdowns grow from 1 to the least solution.
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<double> steps_s;
    for (std::size_t u = 0; u < users.size(); ++u) steps_s.push_back(users[u].step_s(slowdowns[u]));
    double change = 0;
    for (auto& [link, visits] : links) {
      for (Visit& visit : visits)
        visit.computes_s = std::max(0.0, steps_s[visit.user] - visit.sends_s * visit.slowdown);
      share(visits);
      for (const Visit& visit : visits) {
        change = std::max(change, visit.slowdown - slowdowns[visit.user]);
        slowdowns[visit.user] = std::max(slowdowns[visit.user], visit.slowdown);
      }
    }
    if (change < kTolerance) break;
  }
  return slowdowns;
}

}  // namespace rehearse
