#include "predictor/detail/flow_classes.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

namespace {
constexpr double kNoLoad = 1e-9;  // flows: rounding
}  // namespace

void FlowClasses::Class::serve_until(double now) {
  served += rate * (now - since);
  since = now;
}

void FlowClasses::Class::find_first() {
  is_known = true;
  first = 0;
  for (std::size_t i = 1; i < flows.size(); ++i)
    if (flows[i].until < flows[first].until) first = i;
}

FlowClasses::FlowClasses(const std::vector<double>& nics, double cap)
    : cap_{cap}, load_(2 * nics.size()), crossing_(2 * nics.size()) {
  for (const double nic : nics) capacities_.insert(capacities_.end(), 2, nic);
}

std::size_t FlowClasses::add(std::size_t from, std::size_t to, double from_weight, double to_weight) {
  const std::size_t out = 2 * from, in = 2 * to + 1;
  for (std::size_t c = 0; c < classes_.size(); ++c)
    if (classes_[c].out == out && classes_[c].in == in && classes_[c].out_weight == from_weight &&
        classes_[c].in_weight == to_weight)
      return c;
  Class& added = classes_.emplace_back();
  added.out = out;
  added.in = in;
  added.out_weight = from_weight;
  added.in_weight = to_weight;
  ends_.push_back(kNever);
  for (const std::size_t d : {out, in}) crossing_[d].push_back(classes_.size() - 1);
  return classes_.size() - 1;
}

void FlowClasses::start(std::size_t class_index, std::size_t flow, double bytes, double now) {
  Class& its = classes_[class_index];
  its.serve_until(now);
  its.flows.push_back({its.served + bytes, flow});
  count(class_index, 1);
}

/// After a flow has come (1) or gone (-1).
void FlowClasses::count(std::size_t class_index, int change) {
  Class& its = classes_[class_index];
  if (its.is_known) touched_.push_back(class_index);
  its.is_known = false;
  const std::size_t before = its.flows.size() - static_cast<std::size_t>(change);
  unequal_ += (its.flows.size() != its.shared ? 1 : 0) - (before != its.shared ? 1 : 0);
}

double FlowClasses::next_end(double now) {
  if (unequal_ > 0) share(now);
  for (const std::size_t c : touched_) find_end(c);
  touched_.clear();
  next_ = static_cast<std::size_t>(std::min_element(ends_.begin(), ends_.end()) - ends_.begin());
  if (ends_.empty()) return kNever;
  return ends_[next_];
}

void FlowClasses::find_end(std::size_t class_index) {
  Class& its = classes_[class_index];
  if (!its.is_known) its.find_first();
  ends_[class_index] = its.flows.empty() || !(its.rate > 0)
                           ? kNever
                           : its.since + std::max(0.0, its.flows[its.first].until - its.served) / its.rate;
}

std::size_t FlowClasses::end_next() {
  Class& its = classes_[next_];
  its.serve_until(ends_[next_]);
  const std::size_t ended = its.flows[its.first].flow;
  its.flows[its.first] = its.flows.back();
  its.flows.pop_back();
  count(next_, -1);
  return ended;
}

void FlowClasses::share(double now) {
  unequal_ = 0;
  left_ = capacities_;
  std::fill(load_.begin(), load_.end(), 0);
  std::size_t without_rate = 0;
  for (Class& its : classes_) {
    its.serve_until(now);
    its.shared = its.flows.size();
    its.has_rate = its.flows.empty();
    if (its.has_rate) continue;
    ++without_rate;
    load_[its.out] += its.out_weight * static_cast<double>(its.shared);
    load_[its.in] += its.in_weight * static_cast<double>(its.shared);
  }
  const auto give = [&](Class& its, double rate) {
    if (std::exchange(its.has_rate, true)) return;
    --without_rate;
    its.rate = rate;
    for (const auto& [d, weight] : {std::pair{its.out, its.out_weight}, std::pair{its.in, its.in_weight}}) {
      const double flows = weight * static_cast<double>(its.shared);
      left_[d] = std::max(0.0, left_[d] - rate * flows);
      load_[d] -= flows;
    }
  };
  while (without_rate > 0) {
    double rate = cap_;
    std::size_t fullest = load_.size();  // none: every flow has its cap
    for (std::size_t d = 0; d < load_.size(); ++d)
      if (load_[d] > kNoLoad && left_[d] < rate * load_[d]) {
        rate = left_[d] / load_[d];
        fullest = d;
      }
    if (fullest == load_.size())
      for (Class& its : classes_) give(its, rate);
    else
      for (const std::size_t c : crossing_[fullest]) give(classes_[c], rate);
    if (fullest < load_.size()) load_[fullest] = 0;
  }
  for (std::size_t c = 0; c < classes_.size(); ++c) find_end(c);
}

}  // namespace rehearse
