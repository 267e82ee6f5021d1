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

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/collective_protocols.hpp"
#include "sim/scenario/profile_completion.hpp"

namespace rehearse {

namespace {

using nlohmann::literals::operator""_json_pointer;

constexpr std::array kLinkEfficiencies{"nvlink_efficiency", "pcie_efficiency", "socket_efficiency",
                                       "nvlink_relay_efficiency"};

class CollectiveCompletion {
 public:
  explicit CollectiveCompletion(ProfileCompletion& target)
      : target_{target}, scenario_{target.scenario()}, profile_{target.profile()}, catalog_{target.catalog()} {}

  void collectives() {
    const CollectiveRules* rules = scenario_.training.strategy.kind->collectives();
    if (rules == nullptr || scenario_.count(Role::kWorker) < 2) return;
    std::set<std::string> done;
    for (const Group& group : scenario_.groups)
      if (group.role == Role::kWorker && done.insert(group.interconnect.name).second) collectives_of(group);
  }

 private:
  /// Protocols on one kind of machine.
  struct Candidate {
    std::string profile, interconnect;  // empty interconnect: of any
    LinkKind kind = LinkKind::kPcie;
    double rate = 0;
    double gpu_distance = 0;
    Json entry;                     // with its protocols, complete
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

  static bool works(const Json& protocol, const Need& need) {
    if (protocol.contains("operation") && protocol["operation"] != "all_reduce") return false;
    if (!protocol.contains("algorithm")) return true;
    const auto algorithm = find_collective_algorithm(protocol["algorithm"].get<std::string>());
    if (algorithm == CollectiveAlgorithm::kTree && !need.spans) return false;
    if (algorithm == CollectiveAlgorithm::kNvls && (need.spans || !need.reduces)) return false;
    return is_choice(need.algorithm) || algorithm == need.algorithm;
  }
  static bool any_works(const Json& protocols, const Need& need) {
    return std::any_of(protocols.begin(), protocols.end(), [&](const Json& protocol) { return works(protocol, need); });
  }

  /// Of the donors, and of the profile itself on other interconnects.
  std::vector<Candidate> candidates(const Accelerator& gpu, const Interconnect& links) {
    std::vector<Candidate> list;
    const auto add = [&](const std::string& profile, const Json& json, double far) {
      if (!json.contains("collectives")) return;
      const Json& library = json["collectives"];
      if (library.contains("by_interconnect"))
        for (const auto& [name, entry] : library["by_interconnect"].items()) {
          const auto known = catalog_.interconnect_names();
          if (std::find(known.begin(), known.end(), name) == known.end()) continue;
          const Interconnect inside = read_interconnect(catalog_.interconnect(name, target_.asked_by()), gpu.host_link);
          list.push_back({profile, name, kind_of(inside), rate_of(inside), far,
                          library_on(library, name, inside.generation, gpu)});
        }
      if (library.contains("by_generation") && library["by_generation"].contains(links.generation))
        list.push_back({profile, links.generation, kind_of(links), rate_of(links), far,
                        library_on(library, "", links.generation, gpu), true,
                        json.value("/fit/seen/workers_max"_json_pointer, 0)});
      if (library.contains("protocols") && !library["protocols"].empty())
        list.push_back({profile, "", states_pcie(library) ? LinkKind::kPcie : LinkKind::kNvlinks,
                        states_pcie(library) ? gpu.host_link.value() : 0, far, library_on(library, "", "", gpu)});
    };
    add(target_.name(), profile_, 0);
    for (const ProfileDonor& donor : target_.donors())
      add(donor.name, *donor.profile, target_.nearest_of(donor.gpus, gpu));
    return list;
  }

  /// The algorithms whose costs are needed: all if the scenario asks for the fastest; else its own, after rings, whose costs other
  /// collectives have, where there are such.
  std::vector<CollectiveAlgorithm> wanted_algorithms() const {
    const CollectiveRules& strategy = *scenario_.training.strategy.kind->collectives();
    if (strategy.algorithm == CollectiveAlgorithm::kFastest) {
      std::vector<CollectiveAlgorithm> all;
      for (const auto& [word, algorithm] : collective_algorithms())
        if (!is_choice(algorithm)) all.push_back(algorithm);
      return all;
    }
    std::vector<CollectiveAlgorithm> wanted;
    const auto* timed = std::get_if<TimedLayers>(&scenario_.model.structure);
    if (strategy.algorithm != CollectiveAlgorithm::kRing &&
        (!strategy.only_reduces || (timed != nullptr && timed->operation != CollectiveKind::kAllReduce)))
      wanted.push_back(CollectiveAlgorithm::kRing);
    wanted.push_back(strategy.algorithm);
    return wanted;
  }

  Need need_of(const Group& group) const {
    Need need{.group = &group,
              .algorithm = CollectiveAlgorithm::kLibrary,
              .kind = kind_of(group.interconnect),
              .spans = scenario_.islands().size() > 1,
              .reduces = group.interconnect.reduces_in_switch};
    need.keys.emplace_back("launch");
    if (group.workers_per_machine() * std::min(group.machines_per_domain, group.count) > 1) {
      if (need.kind != LinkKind::kPcie) need.keys.emplace_back("nvlink_step");
      if (need.kind != LinkKind::kSwitch) need.keys.emplace_back("pcie_step");
    }
    if (need.spans) need.keys.emplace_back("network_step");
    return need;
  }

  /// The interconnects that have protocols, the nearest first: those of which one works, of the same kind, with the fewest
  /// of the needed keys not stated, of the nearest rate, of the nearest GPU.
  static std::vector<Candidate> nearest_first(std::vector<Candidate> list, const Need& need) {
    const auto lacks = [&](const Candidate& candidate) {
      int most = 0;
      for (const auto& [label, protocol] : candidate.entry["protocols"].items()) {
        int stated = 0;
        for (const std::string& key : need.keys) stated += protocol.contains(key) ? 1 : 0;
        most = std::max(most, stated);
      }
      return static_cast<int>(need.keys.size()) - most;
    };
    const auto rank = [&](const Candidate& candidate) {
      const int other_kind = candidate.kind == need.kind                                             ? 0
                             : (candidate.kind == LinkKind::kPcie) == (need.kind == LinkKind::kPcie) ? 1
                                                                                                     : 2;
      const double rates =
          candidate.rate > 0 ? std::abs(std::log(candidate.rate / rate_of(need.group->interconnect))) : 10;
      return std::tuple{!any_works(candidate.entry["protocols"], need),
                        other_kind,
                        !candidate.is_of_generation,
                        lacks(candidate),
                        rates,
                        candidate.gpu_distance};
    };
    std::erase_if(list,
                  [](const Candidate& c) { return !c.entry.contains("protocols") || c.entry["protocols"].empty(); });
    std::stable_sort(list.begin(), list.end(),
                     [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
    return list;
  }

  /// What the profile says of an interconnect, and what is added to it.
  struct Completion {
    Json entry;
    std::string pointer;
    Json components = Json::object();
    bool has_own = false;  // protocols, before
    std::string text{};
    std::map<std::string, std::vector<std::string>> taken{};  // from where -> algorithms
    std::map<std::string, std::set<std::string>> filled{};    // donor -> keys
    std::set<std::string> whatever{};                         // labels of protocols that stated no algorithm
  };

  /// What trees cost is of those between machines.
  static void drop_trees(Json& protocols) {
    for (auto protocol = protocols.begin(); protocol != protocols.end();)
      if (protocol->contains("algorithm") &&
          find_collective_algorithm((*protocol)["algorithm"].get<std::string>()) == CollectiveAlgorithm::kTree)
        protocol = protocols.erase(protocol);
      else
        ++protocol;
  }

  void collectives_of(const Group& group) {
    const std::string& name = group.interconnect.name;
    const std::vector<CollectiveAlgorithm> wanted = wanted_algorithms();
    Need need = need_of(group);
    Completion completion;
    completion.entry = library_on(profile_.contains("collectives") ? profile_["collectives"] : Json::object(), name,
                                  group.interconnect.generation, *group.accelerator);
    Json& entry = completion.entry;
    completion.pointer = "/collectives";
    if (!name.empty()) completion.pointer = extend_json_pointer(completion.pointer + "/by_interconnect", name);
    std::vector<Candidate> all;  // most profiles need none
    const NearestFirst nearest = [&] {
      if (all.empty()) all = candidates(*group.accelerator, group.interconnect);
      return nearest_first(all, need);
    };
    if (!need.spans && entry.contains("protocols")) drop_trees(entry["protocols"]);
    completion.has_own = entry.contains("protocols") && any_works(entry["protocols"], need);
    if (!completion.has_own) take_link_efficiencies(entry, nearest());
    if (wanted.size() > 1) tell_algorithms_apart(completion, wanted, need);
    for (const CollectiveAlgorithm algorithm : wanted) {
      need.algorithm = algorithm;
      complete(completion, nearest, need, wanted.size() > 1);
    }
    note_completion(completion, need);
  }

  /// Shares of the links' rates belong to the links: they are those of the nearest, whatever the algorithm.
  static void take_link_efficiencies(Json& entry, const std::vector<Candidate>& nearest) {
    if (nearest.empty()) return;
    for (const char* key : kLinkEfficiencies)
      if (!entry.contains(key) && nearest.front().entry.contains(key)) entry[key] = nearest.front().entry[key];
  }

  /// Where several algorithms are wanted, a protocol that states none and not all that it costs becomes one for each: what it
  /// lacks may come from elsewhere for each.
  static void tell_algorithms_apart(Completion& completion, const std::vector<CollectiveAlgorithm>& wanted,
                                    const Need& need) {
    if (!completion.entry.contains("protocols")) return;
    Json& protocols = completion.entry["protocols"];
    const Json before = protocols;
    for (const auto& [label, protocol] : before.items()) {
      if (protocol.contains("algorithm") || protocol.contains("operation") ||
          std::ranges::all_of(need.keys, [&stated = protocol](const std::string& key) { return stated.contains(key); }))
        continue;
      for (const CollectiveAlgorithm algorithm : wanted) {
        if (algorithm == CollectiveAlgorithm::kLibrary) continue;
        const std::string of = algorithm == CollectiveAlgorithm::kRing ? label : label_for(label, algorithm);
        protocols[of] = protocol;
        protocols[of]["algorithm"] = word_of(algorithm);
        completion.whatever.insert(of);
      }
    }
  }

  static std::string word_of(CollectiveAlgorithm algorithm) {
    return collective_algorithms().at(static_cast<std::size_t>(algorithm)).first;
  }
  static std::string label_for(const std::string& label, CollectiveAlgorithm algorithm) {
    return label + " as " + word_of(algorithm);
  }

  static bool is_whatever(const Completion& completion, const std::string& label, const Json& protocol,
                          CollectiveAlgorithm algorithm) {
    return completion.whatever.contains(label) && protocol["algorithm"] == word_of(algorithm);
  }

  /// The nearest that states it for a protocol of that label; of those that have none, of any.
  static std::pair<const Candidate*, const Json*> first_that_states(const std::vector<Candidate>& list,
                                                                    const std::string& label, const std::string& key) {
    for (const Candidate& candidate : list) {
      const Json& protocols = candidate.entry["protocols"];
      if (protocols.contains(label) && protocols[label].contains(key)) return {&candidate, &protocols[label][key]};
    }
    for (const Candidate& candidate : list)
      if (const Json* value = stated_by(candidate.entry["protocols"], label, key)) return {&candidate, value};
    return {};
  }

  using NearestFirst = std::function<std::vector<Candidate>()>;

  /// The algorithm's protocols, from the nearest where there are none, and what they do not state.
  void complete(Completion& completion, const NearestFirst& nearest, const Need& need, bool has_others) {
    Json& entry = completion.entry;
    if (!entry.contains("protocols")) entry["protocols"] = Json::object();
    Json& protocols = entry["protocols"];
    const auto is_meant = [&](const std::string& label, const Json& protocol) {
      return works(protocol, need) || is_whatever(completion, label, protocol, need.algorithm);
    };
    bool is_known = false;
    for (const auto& [label, protocol] : protocols.items()) is_known = is_known || is_meant(label, protocol);
    std::optional<std::vector<Candidate>> known;
    const auto others = [&]() -> const std::vector<Candidate>& { return known ? *known : known.emplace(nearest()); };
    if (!is_known) {
      if (others().empty()) return;
      take_protocols(completion, others(), need, has_others);
    }
    for (const std::string& key : need.keys)
      for (auto& [label, protocol] : protocols.items()) {
        if (protocol.contains(key) || !is_meant(label, protocol)) continue;
        const std::vector<Candidate>& list = others();
        const auto [candidate, value] = first_that_states(list, label, key);
        if (candidate == nullptr) continue;
        protocol[key] = *value;
        completion.components[extend_json_pointer(extend_json_pointer(completion.pointer + "/protocols", label), key)] =
            spread_over(list, key);
        completion.filled[in_quotes(candidate->profile) + describe_interconnect(*candidate)].insert(key);
      }
  }

  void take_protocols(Completion& completion, const std::vector<Candidate>& list, const Need& need, bool has_others) {
    const Candidate& nearest = list.front();
    Json& entry = completion.entry;
    const Json protocols = with_full_rate(usable(nearest.entry["protocols"], need), nearest.entry["protocols"], need);
    for (const auto& [label_there, protocol] : protocols.items()) {
      const bool has_label = entry["protocols"].contains(label_there), is_of_another = protocol.contains("operation");
      if (is_of_another && has_label) continue;
      const bool is_tagged = has_others && need.algorithm != CollectiveAlgorithm::kLibrary && !is_of_another;
      const bool keeps_label = !is_tagged || (protocol.contains("algorithm") && !has_label);
      const std::string label = keeps_label ? label_there : label_for(label_there, need.algorithm);
      Json taken = protocol;
      if (is_tagged) taken["algorithm"] = word_of(need.algorithm);
      if (!need.spans) keep_rate(taken, nearest.entry, entry, need.kind);
      target_.forget_fit_of(extend_json_pointer(completion.pointer + "/protocols", label));
      for (const auto& [key, value] : taken.items())
        if (key == "launch" || key == "efficiency" || key.ends_with("_step"))
          completion
              .components[extend_json_pointer(extend_json_pointer(completion.pointer + "/protocols", label), key)] =
              nearest.is_of_generation ? kLeastSpread : spread_over(list, key);
      entry["protocols"][label] = std::move(taken);
    }
    std::string from =
        "as in profile " + in_quotes(nearest.profile) + describe_interconnect(nearest) + ", the nearest that has";
    const int gpus = std::min(need.group->count, need.group->machines_per_domain) * need.group->instance.accelerators;
    if (nearest.is_of_generation && gpus > nearest.most_gpus)
      from += ", continued to " + std::to_string(gpus) + " GPUs from at most " + std::to_string(nearest.most_gpus);
    completion.taken[from].push_back(word_of(need.algorithm));
  }

  /// A library has its protocols for all algorithms: where a machine's measurements of trees show none with the rate that its rings
  /// reach, that of the rings costs what it does for them.
  static Json with_full_rate(Json taken, const Json& all, const Need& need) {
    if (need.algorithm != CollectiveAlgorithm::kTree) return taken;
    const auto rate_of = [](const Json& protocol) { return protocol.value("efficiency", 1.0); };
    double best = 0;
    for (const Json& protocol : taken) best = std::max(best, rate_of(protocol));
    Need ring = need;
    ring.algorithm = CollectiveAlgorithm::kRing;
    for (const auto& [label, protocol] : all.items()) {
      if (!works(protocol, ring) || !protocol.contains("algorithm") || rate_of(protocol) <= best) continue;
      best = rate_of(protocol);
      Json as_tree = protocol;
      as_tree["algorithm"] = word_of(need.algorithm);
      taken[label_for(label, need.algorithm)] = std::move(as_tree);
    }
    return taken;
  }

  /// What a protocol reaches of the links inside a machine is a share of what the link efficiency beside it leaves of them.
  static void keep_rate(Json& protocol, const Json& there, const Json& here, LinkKind kind) {
    const char* key = kind == LinkKind::kPcie ? "pcie_efficiency" : "nvlink_efficiency";
    const double ratio = there.value(key, 1.0) / here.value(key, 1.0);
    if (ratio != 1 && !protocol.contains("operation"))
      protocol["efficiency"] = std::min(1.0, protocol.value("efficiency", 1.0) * ratio);
  }

  /// Protocols that the profile had there and that others have taken the place of.
  void forget_lost_protocols(const Completion& completion) {
    const std::string place = completion.pointer + "/protocols";
    const Json* before = json_pointer_find(profile_, place);
    if (before == nullptr) return;
    for (const auto& [label, protocol] : before->items())
      if (!completion.entry["protocols"].contains(label)) target_.forget_fit_of(extend_json_pointer(place, label));
  }

  void note_completion(Completion& completion, const Need& need) {
    const std::string& name = need.group->interconnect.name;
    std::string& text = completion.text;
    const bool has_several = wanted_algorithms().size() > 1;
    for (const auto& [from, algorithms] : completion.taken)
      text += (text.empty() ? target_.own() + " has no " : "; no ") +
              (has_several && (completion.has_own || completion.taken.size() > 1) ? joined(algorithms) + " of its own"
                                                                                  : std::string{"all-reduce"}) +
              " over " + name_of(need.kind) + place(name) + ": " + from;
    for (const auto& [donor, keys] : completion.filled)
      text += (text.empty() ? target_.own() + " does not state all that an all-reduce over " + name_of(need.kind) +
                                  place(name) + " costs"
                            : std::string{}) +
              "; " + joined(keys) + " as in profile " + donor;
    if (text.empty()) return;
    Json& components = completion.components;
    for (auto& [label, change] : components.items()) change = std::round(change.get<double>() * 1e4) / 1e4;
    double most = 0;
    for (const Json& change : components) most = std::max(most, change.get<double>());
    forget_lost_protocols(completion);
    if (name.empty()) {
      for (const auto& [key, value] : completion.entry.items()) profile_["collectives"][key] = value;
      profile_["collectives"].erase("by_generation");  // would come before
      target_.forget_fit_of("/collectives/by_generation");
    } else {
      profile_["collectives"]["by_interconnect"][name] = completion.entry;
    }
    // What the profile has of its own is as certain as before.
    const bool has_own_of_several = has_several && completion.has_own && completion.filled.empty();
    target_.note(text + (target_.knows_errors() ? target_.off_by(most)
                                                : "; these times and shares may be off by up to " +
                                                      percent_of_spread(most) + ", as they differ between machines"),
                 has_own_of_several ? 0 : kLeastSpread, std::move(components));
  }

  /// Those that carry out what is needed; otherwise rings, or all, whose costs stand for it.
  static Json usable(const Json& protocols, const Need& need) {
    Json taken = Json::object(), rings = Json::object();
    for (const auto& [label, protocol] : protocols.items()) {
      if (works(protocol, need)) taken[label] = protocol;
      Json any = protocol;
      any.erase("algorithm");
      any.erase("in_gpu_order");
      rings[label] = std::move(any);
    }
    if (taken.empty()) return rings;
    for (const auto& [label, protocol] : protocols.items())
      if (protocol.contains("operation")) taken[label] = protocol;
    return taken;
  }

  /// Of the best that each candidate states.
  static double spread_over(const std::vector<Candidate>& list, const std::string& key) {
    std::vector<double> values;
    for (const Candidate& candidate : list) {
      const double best = best_of(candidate.entry["protocols"], key);
      if (best > 0) values.push_back(best);
    }
    return spread_of(values);
  }

  static std::string place(const std::string& interconnect) {
    return interconnect.empty() ? "" : " of " + in_quotes(interconnect);
  }
  static std::string describe_interconnect(const Candidate& candidate) {
    return candidate.interconnect.empty() ? "" : " on " + in_quotes(candidate.interconnect);
  }

  ProfileCompletion& target_;
  const Scenario& scenario_;
  Json& profile_;
  const Catalog& catalog_;
};

}  // namespace

void complete_collectives(ProfileCompletion& target) { CollectiveCompletion{target}.collectives(); }

}  // namespace rehearse
