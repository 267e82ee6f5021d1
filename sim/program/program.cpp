#include "sim/program/program.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/base/overloaded.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

void ProgramBuilder::add_stretch(int stream, OperationIndex begin, std::int64_t repeat) {
  if (program_.streams.size() <= at(stream)) program_.streams.resize(at(stream) + 1);
  if (begin == next() || repeat == 0) return;
  for (OperationIndex i = begin; i < next(); ++i)
    program_.kernel_time += chain_of(program_.operation(i)).time * static_cast<double>(repeat);
  program_.streams[at(stream)].push_back({begin, next(), repeat});
}

Program ProgramBuilder::finish() {
  std::vector<Node>& nodes = program_.nodes;
  for (const Edge& edge : edges_) {
    ++nodes[at(edge.later)].needs;
    ++nodes[at(edge.earlier)].last_after;
  }
  OperationIndex first = 0;
  for (Node& node : nodes) {
    node.first_after = first;
    first += node.last_after;
    node.last_after = node.first_after;  // counts up to its value below
  }
  program_.after.resize(edges_.size());
  for (const Edge& edge : edges_) program_.after[at(nodes[at(edge.earlier)].last_after++)] = edge.later;
  for (OperationIndex i = 0; i < next(); ++i)
    if (nodes[at(i)].needs == 0 && !is_kernels(nodes[at(i)].operation)) program_.first.push_back(i);
  return std::move(program_);
}

namespace {

/// Two chains, or kernels, one after the other.
Chain joined(const Operation& earlier, const Operation& later) {
  const Chain a = chain_of(earlier), b = chain_of(later);
  return {.stream = a.stream,
          .is_dispatched_ahead = a.is_dispatched_ahead,
          .first_host = a.first_host,
          .host = a.host + b.host,
          .time = a.time + b.time,
          .critical = std::max(a.critical + b.time, a.host + b.critical)};
}

Operation repeated(const Operation& chain, std::int64_t times) {
  if (times == 1) return chain;
  const Operation half = repeated(chain, times / 2);
  const Operation twice = joined(half, half);
  return times % 2 == 0 ? twice : joined(twice, chain);
}

class Fusion {
 public:
  explicit Fusion(const Program& program) : program_{program}, became_(program.nodes.size(), -1) {}

  Program fuse() {
    for (std::size_t i = 0; i < became_.size(); ++i)
      if (const Node& node = program_.nodes[i]; !is_kernels(node.operation))
        became_[i] = builder_.add(node.operation, node.signal);
    for (std::size_t stream = 0; stream < program_.streams.size(); ++stream) {
      const OperationIndex begin = builder_.next();
      is_open_ = false;
      for (const Stretch& stretch : program_.streams[stream]) fuse(stretch);
      builder_.add_stretch(static_cast<int>(stream), begin);
    }
    for (std::size_t i = 0; i < became_.size(); ++i)
      for (OperationIndex e = program_.nodes[i].first_after; e < program_.nodes[i].last_after; ++e)
        builder_.order(became_[i], became_[at(program_.after[at(e)])]);
    Program& fused = builder_.program();
    fused.counters = program_.counters;
    fused.common_counters = program_.common_counters;
    for (OperationIndex Program::*place : {&Program::has_variables, &Program::awaits_samples, &Program::copies_samples})
      if (program_.*place >= 0) fused.*place = became_[at(program_.*place)];
    fused.labels = program_.labels;
    fused.cycle = program_.cycle;
    fused.counts_waits = program_.counts_waits;
    return builder_.finish();
  }

 private:
  static bool is_awaited(const Node& node) { return node.first_after < node.last_after || node.signal; }

  void fuse(const Stretch& stretch) {
    const auto begin = program_.nodes.begin() + stretch.begin, end = program_.nodes.begin() + stretch.end;
    if (std::none_of(begin, end, [](const Node& node) { return node.needs > 0 || is_awaited(node); })) {
      Operation chain = begin->operation;
      for (auto node = begin + 1; node < end; ++node) chain = joined(chain, node->operation);
      (void)add({.operation = repeated(chain, stretch.repeat)});
      return;
    }
    if (stretch.repeat != 1) throw std::logic_error{"operations that others wait for are repeated"};
    for (OperationIndex i = stretch.begin; i < stretch.end; ++i) became_[at(i)] = add(program_.nodes[at(i)]);
  }

  /// As part of the latest chain, if that is open and the kernels wait for nothing.
  OperationIndex add(const Node& kernels) {
    const bool goes_on = is_open_ && kernels.needs == 0;
    is_open_ = !is_awaited(kernels);
    if (!goes_on) return builder_.add(kernels.operation, kernels.signal);
    Node& last = builder_.program().nodes.back();
    last.operation = joined(last.operation, kernels.operation);
    last.signal = kernels.signal;
    return builder_.next() - 1;
  }

  const Program& program_;
  ProgramBuilder builder_;
  std::vector<OperationIndex> became_;
  bool is_open_ = false;  // whether the latest chain may go on
};

}  // namespace

Program fuse_chains(const Program& program) { return Fusion{program}.fuse(); }

namespace {

std::string text_of(const Signal& signal) {
  return (signal.scope == CounterScope::kTeam  ? "the team's counter "
          : signal.scope == CounterScope::kAll ? "everybody's counter "
                                               : "counter ") +
         std::to_string(signal.counter);
}

std::string gate_text(const std::string& of, int each, int lag) {
  return "gate of " + of + " at " + (each == 1 ? "" : std::to_string(each) + " x ") + "step" +
         (lag == 0 ? "" : " - " + std::to_string(lag));
}

std::string name_of(const std::vector<std::string>& names, int label) {
  return label >= 0 && at(label) < names.size() ? " " + names[at(label)] : std::string{};
}

std::string text_of(const Operation& operation, const std::vector<std::string>& labels,
                    const std::vector<std::string>& kernels) {
  const auto label = [&labels](const auto& does) { return name_of(labels, does.label); };
  const auto times = [](const auto& does) { return to_text(does.host) + " host, " + to_text(does.time); };
  const auto on_cores = [](const auto& does) {
    return ": " + to_text(does.time) +
           (does.parts > 1 ? " on each of " + std::to_string(does.parts) + " cores" : std::string{});
  };
  return std::visit(
      Overloaded{
          [](const Delay& delay) { return "delay: " + to_text(delay.time); },
          [&](const Copy& copy) {
            return "copy" + (copy.label == Copy::kSamples ? " samples" : label(copy)) +
                   (copy.direction == CopyDirection::kToGpu ? " to GPU: " : " from GPU: ") + to_text(copy.bytes);
          },
          [](const BeginKernels&) { return std::string{"begin"}; },
          [&](const Compute& kernel) {
            return "compute" + name_of(kernels, kernel.label) + " on stream " + std::to_string(kernel.stream) + ": " +
                   times(kernel);
          },
          [&](const Chain& chain) { return "chain on stream " + std::to_string(chain.stream) + ": " + times(chain); },
          [&](const Send& send) {
            return "send" + label(send) + " over connection " + std::to_string(send.connection) +
                   (send.is_collected ? " at the end of a cycle" : "") + ": " + to_text(send.bytes);
          },
          [](const Notify& notify) { return "notify over connection " + std::to_string(notify.connection); },
          [&](const ReadVariable& read) {
            return "read" + label(read) + " at server " + std::to_string(read.server) + ": " + to_text(read.time);
          },
          [&](const ApplyGradient& apply) {
            return "apply" + label(apply) + " at server " + std::to_string(apply.server) + on_cores(apply) +
                   (apply.counter < 0 ? std::string{}
                                      : ", the last of all advances " + text_of({CounterScope::kAll, apply.counter}));
          },
          [&](const AddGradient& add) { return "add up" + label(add) + " at own cores" + on_cores(add); },
          [&](const Fetch& fetch) { return "fetch" + label(fetch) + " from a random worker: " + to_text(fetch.bytes); },
          [&](const Collective& collective) {
            return std::string{to_text(collective.kind)} + label(collective) + " in group " +
                   std::to_string(collective.group) + ": " + to_text(collective.bytes);
          },
          [](const Gate& gate) {
            return gate_text(text_of({gate.scope, gate.counter}), gate.each, gate.lag);
          },
          [](const StepsGate& gate) { return gate_text("ended steps", 1, gate.lag); },
          [](const Update&) { return std::string{"update"}; }, [](const Fence&) { return std::string{"fence"}; },
          [](const NextStep&) { return std::string{"next step"}; }},
      operation);
}

}  // namespace

std::string to_text(const Program& program, const std::vector<std::string>& kernels) {
  std::vector<std::string> waits(program.nodes.size());
  for (std::size_t i = 0; i < program.nodes.size(); ++i)
    for (OperationIndex e = program.nodes[i].first_after; e < program.nodes[i].last_after; ++e) {
      std::string& text = waits[at(program.after[at(e)])];
      text += (text.empty() ? " after " : ", ") + std::to_string(i);
    }
  std::string text;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    text += std::to_string(i) + " " + text_of(node.operation, program.labels, kernels);
    if (node.signal) text += ", advances " + text_of(*node.signal);
    text += waits[i] + "\n";
  }
  for (std::size_t s = 0; s < program.streams.size(); ++s)
    for (const Stretch& stretch : program.streams[s])
      if (stretch.repeat != 1)
        text += "stream " + std::to_string(s) + " repeats " + std::to_string(stretch.begin) + " to " +
                std::to_string(stretch.end - 1) + " " + std::to_string(stretch.repeat) + " times\n";
  return text;
}

}  // namespace rehearse
