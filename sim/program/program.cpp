#include "sim/program/program.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/base/parse_quantity.hpp"

namespace rehearse {

void ProgramBuilder::add_stretch(int stream, OperationIndex begin, std::int64_t repeat) {
  const auto s = static_cast<std::size_t>(stream);
  const auto end = static_cast<OperationIndex>(program_.operations.size());
  if (program_.streams.size() <= s) program_.streams.resize(s + 1);
  if (begin == end || repeat == 0) return;
  for (OperationIndex i = begin; i < end; ++i)
    program_.kernel_time += program_.operations[static_cast<std::size_t>(i)].time * static_cast<double>(repeat);
  program_.streams[s].push_back({begin, end, repeat});
}

Program ProgramBuilder::finish() {
  std::vector<Operation>& operations = program_.operations;
  for (const Edge& edge : edges_) {
    ++operations[static_cast<std::size_t>(edge.later)].needs;
    ++operations[static_cast<std::size_t>(edge.earlier)].last_after;
  }
  OperationIndex next = 0;
  for (Operation& operation : operations) {
    operation.first_after = next;
    next += operation.last_after;
    operation.last_after = operation.first_after;  // counts up to its value below
  }
  program_.after.resize(edges_.size());
  for (const Edge& edge : edges_)
    program_.after[static_cast<std::size_t>(operations[static_cast<std::size_t>(edge.earlier)].last_after++)] =
        edge.later;
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (operations[i].needs == 0 && operations[i].kind != OperationKind::kCompute)
      program_.first.push_back(static_cast<OperationIndex>(i));
  return std::move(program_);
}

namespace {

/// Two chains, or kernels, one after the other.
Operation joined(const Operation& a, const Operation& b) {
  Operation both = a;
  both.is_chain = true;
  both.first_host = a.is_chain ? a.first_host : a.host;
  both.host = a.host + b.host;
  both.time = a.time + b.time;
  both.critical = std::max(a.critical + b.time, a.host + b.critical);
  both.memory = a.memory + b.memory;
  return both;
}

Operation repeated(const Operation& chain, std::int64_t times) {
  if (times == 1) return chain;
  const Operation half = repeated(chain, times / 2);
  const Operation twice = joined(half, half);
  return times % 2 == 0 ? twice : joined(twice, chain);
}

}  // namespace

Program fuse_chains(const Program& program) {
  ProgramBuilder builder;
  std::vector<OperationIndex> became(program.operations.size(), -1);
  const auto at = [&](OperationIndex i) -> const Operation& { return program.operations[static_cast<std::size_t>(i)]; };
  const auto copy = [&](Operation operation) {
    operation.needs = operation.first_after = operation.last_after = 0;
    return operation;
  };
  for (std::size_t i = 0; i < program.operations.size(); ++i)
    if (program.operations[i].kind != OperationKind::kCompute) became[i] = builder.add(copy(program.operations[i]));
  for (std::size_t s = 0; s < program.streams.size(); ++s) {
    const auto begin = static_cast<OperationIndex>(builder.program().operations.size());
    bool is_open = false;  // the latest operation may go on
    for (const Stretch& stretch : program.streams[s]) {
      std::vector<Operation> chains;
      std::vector<OperationIndex> chain_of;
      bool is_plain = true;  // nothing waits in the stretch
      for (OperationIndex i = stretch.begin; i < stretch.end; ++i)
        is_plain = is_plain && at(i).needs == 0 && at(i).first_after == at(i).last_after && at(i).signals < 0;
      if (is_plain) {
        Operation chain = copy(at(stretch.begin));
        for (OperationIndex i = stretch.begin + 1; i < stretch.end; ++i) chain = joined(chain, at(i));
        chain = repeated(chain, stretch.repeat);
        if (is_open)
          builder.program().operations.back() = joined(builder.program().operations.back(), chain);
        else
          builder.add(chain);
        is_open = true;
        continue;
      }
      if (stretch.repeat != 1) throw std::logic_error{"operations that others wait for are repeated"};
      for (OperationIndex i = stretch.begin; i < stretch.end; ++i) {
        if (is_open && at(i).needs == 0) {
          Operation& last = builder.program().operations.back();
          const int signals = at(i).signals;
          last = joined(last, at(i));
          last.signals = signals;
          became[static_cast<std::size_t>(i)] = static_cast<OperationIndex>(builder.program().operations.size() - 1);
        } else {
          became[static_cast<std::size_t>(i)] = builder.add(copy(at(i)));
        }
        is_open = at(i).first_after == at(i).last_after && at(i).signals < 0;
      }
    }
    builder.add_stretch(static_cast<int>(s), begin);
  }
  for (std::size_t i = 0; i < program.operations.size(); ++i)
    for (OperationIndex e = program.operations[i].first_after; e < program.operations[i].last_after; ++e)
      builder.order(became[i], became[static_cast<std::size_t>(program.after[static_cast<std::size_t>(e)])]);
  builder.program().counters = program.counters;
  builder.program().common_counters = program.common_counters;
  if (program.has_variables >= 0)
    builder.program().has_variables = became[static_cast<std::size_t>(program.has_variables)];
  builder.program().labels = program.labels;
  return builder.finish();
}

namespace {

std::string scope_text(CounterScope scope, int counter) {
  switch (scope) {
    case CounterScope::kWorker:
      return "counter " + std::to_string(counter);
    case CounterScope::kTeam:
      return "the team's counter " + std::to_string(counter);
    case CounterScope::kAll:
      return "everybody's counter " + std::to_string(counter);
    case CounterScope::kSteps:
      return "ended steps";
  }
  return "";
}

std::string name_of(const std::vector<std::string>& names, int label) {
  const auto index = static_cast<std::size_t>(label);
  return label >= 0 && index < names.size() ? " " + names[index] : std::string{};
}

std::string text_of(const Operation& operation, const std::vector<std::string>& labels,
                    const std::vector<std::string>& kernels) {
  const std::string resource = std::to_string(operation.resource), label = name_of(labels, operation.label);
  switch (operation.kind) {
    case OperationKind::kDelay:
      return "delay: " + to_text(operation.time);
    case OperationKind::kCopy:
      return "copy" + (operation.label < 0 ? " samples" : label) +
             (operation.resource == 0 ? " to GPU: " : " from GPU: ") + to_text(operation.bytes);
    case OperationKind::kBegin:
      return "begin";
    case OperationKind::kCompute:
      return "compute" + name_of(kernels, operation.label) + " on stream " + resource + ": " + to_text(operation.host) +
             " host, " + to_text(operation.time);
    case OperationKind::kSend:
      return "send" + label + " over connection " + resource +
             (operation.is_collected ? " at the end of a cycle" : "") + ": " + to_text(operation.bytes);
    case OperationKind::kNotify:
      return "notify over connection " + resource;
    case OperationKind::kServerWork: {
      const std::string where = operation.resource < 0 ? "own cores" : "server " + resource;
      const std::string cores = operation.parts > 1 ? " on each of " + std::to_string(operation.parts) + " cores" : "";
      return (operation.work == ServerWorkKind::kRead    ? "read"
              : operation.work == ServerWorkKind::kApply ? "apply"
                                                         : "add up") +
             label + " at " + where + ": " + to_text(operation.time) + cores;
    }
    case OperationKind::kFetch:
      return "fetch" + label + " from a random worker: " + to_text(operation.bytes);
    case OperationKind::kCollective:
      return std::string{to_text(operation.collective)} + label + " in group " + resource + ": " +
             to_text(operation.bytes);
    case OperationKind::kGate:
      return "gate of " + scope_text(operation.scope, operation.resource) + " at " +
             (operation.each == 1 ? "" : std::to_string(operation.each) + " x ") + "step" +
             (operation.lag == 0 ? "" : " - " + std::to_string(operation.lag));
    case OperationKind::kUpdate:
      return "update";
    case OperationKind::kFence:
      return "fence";
    case OperationKind::kNext:
      return "next step";
  }
  return "";
}

}  // namespace

std::string to_text(const Program& program, const std::vector<std::string>& kernels) {
  std::vector<std::string> waits(program.operations.size());
  for (std::size_t i = 0; i < program.operations.size(); ++i)
    for (OperationIndex e = program.operations[i].first_after; e < program.operations[i].last_after; ++e) {
      std::string& text = waits[static_cast<std::size_t>(program.after[static_cast<std::size_t>(e)])];
      text += (text.empty() ? " after " : ", ") + std::to_string(i);
    }
  std::string text;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& operation = program.operations[i];
    text += std::to_string(i) + " " + text_of(operation, program.labels, kernels);
    if (operation.signals >= 0)
      text += (operation.work == ServerWorkKind::kApply ? ", the last of all advances " : ", advances ") +
              scope_text(operation.signal_scope, operation.signals);
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
