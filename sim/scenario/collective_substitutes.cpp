// Substitutes for what a profile does not say of collectives: protocols, and what they do not state.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "platforms/gpu_distance.hpp"
#include "platforms/profile_fields.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/collective_protocols.hpp"
#include "sim/scenario/profile_completion.hpp"

namespace rehearse {

namespace {

constexpr std::array kLinkEfficiencies{"nvlink_efficiency", "pcie_efficiency", "socket_efficiency",
                                       "nvlink_relay_efficiency"};
/// What a protocol costs, of which another's value is less certain than a measured one.
constexpr std::array kCosts{"launch", "nvlink_step", "pcie_step", "network_step", "kept_step", "efficiency"};

/// Protocols on one kind of machine.
struct Candidate {
  std::string profile, interconnect;  // empty interconnect: of any
  LinkKind kind = LinkKind::kPcie;
  double rate = 0;
  double gpu_distance = 0;
  CollectiveParameters entry;     // with its protocols, complete
  bool is_of_generation = false;  // of the very links
  int most_gpus = 0;              // that were measured, of a machine, if is_of_generation
};

/// What the workers of a group need of a library.
struct Need {
  const Group* group = nullptr;
  CollectiveAlgorithm algorithm{};  // or the library's choice: any will do
  LinkKind kind{};
  bool spans = false, reduces = false;  // several islands; in the switch
  std::vector<std::string> keys{};      // that a protocol has to state
};

/// What the profile says of an interconnect, and what is added to it.
struct Completion {
  CollectiveParameters entry;
  std::string pointer;
  std::map<std::string, double> components{};
  bool has_own = false;  // protocols, before
  std::string text{};
  std::map<std::string, std::vector<std::string>> taken{};  // from where -> algorithms
  std::map<std::string, std::set<std::string>> filled{};    // donor -> keys
  std::set<std::string> whatever{};                         // labels of protocols that stated no algorithm

  std::string pointer_to(const std::string& label) const { return extend_json_pointer(pointer + "/protocols", label); }
};

using NearestFirst = std::function<std::vector<Candidate>()>;

bool works(const CollectiveProtocol& protocol, const Need& need) {
  if (protocol.operation.value_or(CollectiveKind::kAllReduce) != CollectiveKind::kAllReduce) return false;
  if (!protocol.algorithm) return true;
  if (protocol.algorithm == CollectiveAlgorithm::kTree && !need.spans) return false;
  if (protocol.algorithm == CollectiveAlgorithm::kNvls && (need.spans || !need.reduces)) return false;
  return is_choice(need.algorithm) || protocol.algorithm == need.algorithm;
}

bool any_works(const Protocols& protocols, const Need& need) {
  return std::ranges::any_of(protocols, [&](const auto& entry) { return works(entry.second, need); });
}

/// Those of one profile.
void append_candidates(std::vector<Candidate>& list, ProfileCompletion& target, const Group& group,
                       const std::string& name, const Profile& profile) {
  const CollectiveLibrary& library = profile.stated_collectives;
  const Accelerator& gpu = *group.accelerator;
  const Interconnect& links = group.interconnect;
  const double far = &profile == &target.profile() ? 0 : target.nearest_of(known_gpus(profile), gpu);
  for (const auto& [interconnect, entry] : library.by_interconnect) {
    const auto known = target.catalog().interconnect_names();
    if (std::find(known.begin(), known.end(), interconnect) == known.end()) continue;
    const Interconnect inside =
        read_interconnect(target.catalog().interconnect(interconnect, target.asked_by()), gpu.host_link);
    list.push_back({name, interconnect, kind_of(inside), rate_of(inside), far,
                    library_on(library, interconnect, inside.generation, gpu)});
  }
  if (library.by_generation.contains(links.generation))
    list.push_back({name, links.generation, kind_of(links), rate_of(links), far,
                    library_on(library, "", links.generation, gpu), true, profile.fitted_workers_max});
  const bool is_over_pcie = states_pcie(library.otherwise.protocols);
  if (!library.otherwise.protocols.empty())
    list.push_back({name, "", is_over_pcie ? LinkKind::kPcie : LinkKind::kNvlinks,
                    is_over_pcie ? gpu.host_link.value() : 0, far, library_on(library, "", "", gpu)});
}

/// Of the donors, and of the profile itself on other interconnects.
std::vector<Candidate> candidates(ProfileCompletion& target, const Group& group) {
  std::vector<Candidate> list;
  append_candidates(list, target, group, target.profile().name, target.profile());
  for (const ProfileDonor& donor : target.donors()) append_candidates(list, target, group, donor.name, *donor.profile);
  return list;
}

/// The algorithms whose costs are needed: all if the scenario asks for the fastest; else its own, after rings, whose costs other
/// collectives have, where there are such.
std::vector<CollectiveAlgorithm> wanted_algorithms(const Scenario& scenario) {
  const CollectiveRules& strategy = *scenario.training.strategy.kind->collectives();
  std::vector<CollectiveAlgorithm> wanted;
  if (strategy.algorithm == CollectiveAlgorithm::kFastest) {
    for (const auto& [word, algorithm] : collective_algorithms())
      if (!is_choice(algorithm)) wanted.push_back(algorithm);
    return wanted;
  }
  const auto* timed = std::get_if<TimedLayers>(&scenario.model.structure);
  if (strategy.algorithm != CollectiveAlgorithm::kRing &&
      (!strategy.only_reduces || (timed != nullptr && timed->operation != CollectiveKind::kAllReduce)))
    wanted.push_back(CollectiveAlgorithm::kRing);
  wanted.push_back(strategy.algorithm);
  return wanted;
}

Need need_of(const Scenario& scenario, const Group& group) {
  Need need{.group = &group,
            .algorithm = CollectiveAlgorithm::kLibrary,
            .kind = kind_of(group.interconnect),
            .spans = scenario.islands().size() > 1,
            .reduces = group.interconnect.reduces_in_switch};
  need.keys.emplace_back("launch");
  if (group.workers_per_machine() * std::min(group.machines_per_domain, group.count) > 1) {
    if (need.kind != LinkKind::kPcie) need.keys.emplace_back("nvlink_step");
    if (need.kind != LinkKind::kSwitch) need.keys.emplace_back("pcie_step");
  }
  if (need.spans) need.keys.emplace_back("network_step");
  return need;
}

/// How many of the needed keys even the protocol that states most of them does not state.
int lacking_keys(const Candidate& candidate, const Need& need) {
  std::ptrdiff_t most = 0;
  for (const auto& [label, protocol] : candidate.entry.protocols)
    most = std::max(most, std::ranges::count_if(
                              need.keys, [&stated = protocol](const std::string& key) { return states(stated, key); }));
  return static_cast<int>(need.keys.size()) - static_cast<int>(most);
}

/// The interconnects that have protocols, the nearest first: those of which one works, of the same kind, with the fewest
/// of the needed keys not stated, of the nearest rate, of the nearest GPU.
std::vector<Candidate> nearest_first(std::vector<Candidate> list, const Need& need) {
  const auto rank = [&](const Candidate& candidate) {
    const int other_kind = candidate.kind == need.kind                                             ? 0
                           : (candidate.kind == LinkKind::kPcie) == (need.kind == LinkKind::kPcie) ? 1
                                                                                                   : 2;
    const double rates =
        candidate.rate > 0 ? std::abs(std::log(candidate.rate / rate_of(need.group->interconnect))) : 10;
    return std::tuple{!any_works(candidate.entry.protocols, need),
                      other_kind,
                      !candidate.is_of_generation,
                      lacking_keys(candidate, need),
                      rates,
                      candidate.gpu_distance};
  };
  std::erase_if(list, [](const Candidate& candidate) { return candidate.entry.protocols.empty(); });
  std::stable_sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  return list;
}

std::string word_of(CollectiveAlgorithm algorithm) {
  return collective_algorithms().at(static_cast<std::size_t>(algorithm)).first;
}
std::string label_for(const std::string& label, CollectiveAlgorithm algorithm) {
  return label + " as " + word_of(algorithm);
}

/// Shares of the links' rates belong to the links: they are those of the nearest, whatever the algorithm.
void take_link_efficiencies(CollectiveParameters& entry, const std::vector<Candidate>& nearest) {
  if (nearest.empty()) return;
  for (const char* key : kLinkEfficiencies)
    if (!states(entry, key) && states(nearest.front().entry, key)) copy_field(entry, nearest.front().entry, key);
}

/// Where several algorithms are wanted, a protocol that states none and not all that it costs becomes one for each: what it
/// lacks may come from elsewhere for each.
void tell_algorithms_apart(Completion& completion, const std::vector<CollectiveAlgorithm>& wanted, const Need& need) {
  const Protocols before = completion.entry.protocols;
  for (const auto& [label, protocol] : before) {
    if (protocol.algorithm || protocol.operation ||
        std::ranges::all_of(need.keys, [&stated = protocol](const std::string& key) { return states(stated, key); }))
      continue;
    for (const CollectiveAlgorithm algorithm : wanted) {
      if (algorithm == CollectiveAlgorithm::kLibrary) continue;
      const std::string of = algorithm == CollectiveAlgorithm::kRing ? label : label_for(label, algorithm);
      CollectiveProtocol& own = completion.entry.protocols[of] = protocol;
      own.algorithm = algorithm;
      completion.whatever.insert(of);
    }
  }
}

/// The nearest that states it for a protocol of that label; of those that have none, of any.
std::pair<const Candidate*, const CollectiveProtocol*> first_that_states(const std::vector<Candidate>& list,
                                                                         const std::string& label,
                                                                         const std::string& key) {
  for (const Candidate& candidate : list) {
    const CollectiveProtocol* protocol = candidate.entry.protocols.find(label);
    if (protocol != nullptr && states(*protocol, key)) return {&candidate, protocol};
  }
  for (const Candidate& candidate : list)
    if (const CollectiveProtocol* protocol = stated_by(candidate.entry.protocols, label, key))
      return {&candidate, protocol};
  return {};
}

/// Of the best that each candidate states.
double spread_over(const std::vector<Candidate>& list, const std::string& key) {
  std::vector<double> values;
  for (const Candidate& candidate : list) {
    const double best = best_of(candidate.entry.protocols, key);
    if (best > 0) values.push_back(best);
  }
  return spread_of(values);
}

std::string describe_interconnect(const Candidate& candidate) {
  return candidate.interconnect.empty() ? "" : " on " + in_quotes(candidate.interconnect);
}

/// Those that carry out what is needed; otherwise rings, or all, whose costs stand for it.
Protocols usable(const Protocols& protocols, const Need& need) {
  Protocols taken, rings;
  for (const auto& [label, protocol] : protocols) {
    if (works(protocol, need)) taken[label] = protocol;
    CollectiveProtocol& any = rings[label] = protocol;
    drop_field(any, "algorithm");
    drop_field(any, "in_gpu_order");
  }
  if (taken.empty()) return rings;
  for (const auto& [label, protocol] : protocols)
    if (protocol.operation) taken[label] = protocol;
  return taken;
}

/// A library has its protocols for all algorithms: where a machine's measurements of trees show none with the rate that its rings
/// reach, that of the rings costs what it does for them.
Protocols with_full_rate(Protocols taken, const Protocols& all, const Need& need) {
  if (need.algorithm != CollectiveAlgorithm::kTree) return taken;
  double best = 0;
  for (const auto& [label, protocol] : taken) best = std::max(best, protocol.efficiency);
  Need ring = need;
  ring.algorithm = CollectiveAlgorithm::kRing;
  for (const auto& [label, protocol] : all) {
    if (!works(protocol, ring) || !protocol.algorithm || protocol.efficiency <= best) continue;
    best = protocol.efficiency;
    CollectiveProtocol& as_tree = taken[label_for(label, need.algorithm)] = protocol;
    as_tree.algorithm = need.algorithm;
  }
  return taken;
}

/// What a protocol reaches of the links inside a machine is a share of what the link efficiency beside it leaves of them.
void keep_rate(CollectiveProtocol& protocol, const CollectiveParameters& there, const CollectiveParameters& here,
               LinkKind kind) {
  const double ratio = kind == LinkKind::kPcie ? there.pcie_efficiency / here.pcie_efficiency
                                               : there.nvlink_efficiency / here.nvlink_efficiency;
  if (ratio != 1 && !protocol.operation)
    state(protocol, "efficiency", protocol.efficiency, std::min(1.0, protocol.efficiency * ratio));
}

void take_protocols(ProfileCompletion& target, Completion& completion, const std::vector<Candidate>& list,
                    const Need& need, bool has_others) {
  const Candidate& nearest = list.front();
  CollectiveParameters& entry = completion.entry;
  const Protocols& there = nearest.entry.protocols;
  for (const auto& [label_there, protocol] : with_full_rate(usable(there, need), there, need)) {
    const bool has_label = entry.protocols.contains(label_there), is_of_another = protocol.operation.has_value();
    if (is_of_another && has_label) continue;
    const bool is_tagged = has_others && need.algorithm != CollectiveAlgorithm::kLibrary && !is_of_another;
    const bool keeps_label = !is_tagged || (protocol.algorithm && !has_label);
    const std::string label = keeps_label ? label_there : label_for(label_there, need.algorithm);
    CollectiveProtocol taken = protocol;
    if (is_tagged) taken.algorithm = need.algorithm;
    if (!need.spans) keep_rate(taken, nearest.entry, entry, need.kind);
    const std::string pointer = completion.pointer_to(label);
    target.forget_fit_of(pointer);
    for (const char* key : kCosts)
      if (stated_number(taken, key).value_or(0) > 0)
        completion.components[extend_json_pointer(pointer, key)] =
            nearest.is_of_generation ? kLeastSpread : spread_over(list, key);
    entry.protocols[label] = std::move(taken);
  }
  std::string from =
      "as in profile " + in_quotes(nearest.profile) + describe_interconnect(nearest) + ", the nearest that has";
  const int gpus = std::min(need.group->count, need.group->machines_per_domain) * need.group->instance.accelerators;
  if (nearest.is_of_generation && gpus > nearest.most_gpus)
    from += ", continued to " + std::to_string(gpus) + " GPUs from at most " + std::to_string(nearest.most_gpus);
  completion.taken[from].push_back(word_of(need.algorithm));
}

/// The algorithm's protocols, from the nearest where there are none, and what they do not state.
void complete(ProfileCompletion& target, Completion& completion, const NearestFirst& nearest, const Need& need,
              bool has_others) {
  Protocols& protocols = completion.entry.protocols;
  completion.entry.states_protocols = true;
  const auto is_meant = [&](const auto& entry) {
    const auto& [label, protocol] = entry;
    return works(protocol, need) || (completion.whatever.contains(label) && protocol.algorithm == need.algorithm);
  };
  std::optional<std::vector<Candidate>> known;
  const auto others = [&]() -> const std::vector<Candidate>& { return known ? *known : known.emplace(nearest()); };
  if (std::ranges::none_of(protocols, is_meant)) {
    if (others().empty()) return;
    take_protocols(target, completion, others(), need, has_others);
  }
  for (const std::string& key : need.keys)
    for (auto& entry : protocols) {
      auto& [label, protocol] = entry;
      if (states(protocol, key) || !is_meant(entry)) continue;
      const auto [candidate, value] = first_that_states(others(), label, key);
      if (candidate == nullptr) continue;
      copy_field(protocol, *value, key);
      if (stated_number(protocol, key).value_or(0) > 0)
        completion.components[extend_json_pointer(completion.pointer_to(label), key)] = spread_over(others(), key);
      completion.filled[in_quotes(candidate->profile) + describe_interconnect(*candidate)].insert(key);
    }
}

/// Protocols that the profile had there and that others have taken the place of.
void forget_lost_protocols(ProfileCompletion& target, const Completion& completion, const std::string& name) {
  const CollectiveLibrary& library = target.profile().stated_collectives;
  const CollectiveParameters* before = name.empty() ? &library.otherwise : library.by_interconnect.find(name);
  if (before == nullptr) return;
  for (const auto& [label, protocol] : before->protocols)
    if (!completion.entry.protocols.contains(label)) target.forget_fit_of(completion.pointer_to(label));
}

/// What was taken from where, as a sentence; empty: nothing.
std::string text_of(const ProfileCompletion& target, const Completion& completion, const Need& need, bool has_several) {
  const std::string& name = need.group->interconnect.name;
  const std::string place = name_of(need.kind) + (name.empty() ? "" : " of " + in_quotes(name));
  std::string text;
  for (const auto& [from, algorithms] : completion.taken)
    text += (text.empty() ? target.own() + " has no " : "; no ") +
            (has_several && (completion.has_own || completion.taken.size() > 1) ? joined(algorithms) + " of its own"
                                                                                : std::string{"all-reduce"}) +
            " over " + place + ": " + from;
  for (const auto& [donor, keys] : completion.filled)
    text += (text.empty() ? target.own() + " does not state all that an all-reduce over " + place + " costs"
                          : std::string{}) +
            "; " + joined(keys) + " as in profile " + donor;
  return text;
}

void note_completion(ProfileCompletion& target, Completion& completion, const Need& need, bool has_several) {
  const std::string& name = need.group->interconnect.name;
  const std::string text = text_of(target, completion, need, has_several);
  if (text.empty()) return;
  double most = 0;
  for (auto& [label, change] : completion.components) {
    change = std::round(change * 1e4) / 1e4;
    most = std::max(most, change);
  }
  forget_lost_protocols(target, completion, name);
  CollectiveLibrary& library = target.profile().stated_collectives;
  if (name.empty()) {
    library.otherwise = completion.entry;
    library.by_generation.clear();  // would come before
    target.forget_fit_of("/collectives/by_generation");
  } else {
    library.by_interconnect[name] = completion.entry;
  }
  // What the profile has of its own is as certain as before.
  const bool has_own_of_several = has_several && completion.has_own && completion.filled.empty();
  target.note(text + (target.knows_errors() ? target.off_by(most)
                                            : "; these times and shares may be off by up to " +
                                                  percent_of_spread(most) + ", as they differ between machines"),
              has_own_of_several ? 0 : kLeastSpread, std::move(completion.components));
}

void complete_on(ProfileCompletion& target, const Group& group) {
  const std::string& name = group.interconnect.name;
  const std::vector<CollectiveAlgorithm> wanted = wanted_algorithms(target.scenario());
  const bool has_several = wanted.size() > 1;
  Need need = need_of(target.scenario(), group);
  Completion completion{
      .entry = library_on(target.profile().stated_collectives, name, group.interconnect.generation, *group.accelerator),
      .pointer = name.empty() ? "/collectives" : extend_json_pointer("/collectives/by_interconnect", name)};
  std::vector<Candidate> all;  // most profiles need none
  const NearestFirst nearest = [&] {
    if (all.empty()) all = candidates(target, group);
    return nearest_first(all, need);
  };
  Protocols& protocols = completion.entry.protocols;
  if (!need.spans)  // what trees cost is of those between machines
    protocols.erase_if(
        [](const CollectiveProtocol& protocol) { return protocol.algorithm == CollectiveAlgorithm::kTree; });
  completion.has_own = any_works(protocols, need);
  if (!completion.has_own) take_link_efficiencies(completion.entry, nearest());
  if (has_several) tell_algorithms_apart(completion, wanted, need);
  for (const CollectiveAlgorithm algorithm : wanted) {
    need.algorithm = algorithm;
    complete(target, completion, nearest, need, has_several);
  }
  note_completion(target, completion, need, has_several);
}

}  // namespace

void complete_collectives(ProfileCompletion& target) {
  const Scenario& scenario = target.scenario();
  if (scenario.training.strategy.kind->collectives() == nullptr || scenario.count(Role::kWorker) < 2) return;
  std::set<std::string> done;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && done.insert(group.interconnect.name).second) complete_on(target, group);
}

}  // namespace rehearse
