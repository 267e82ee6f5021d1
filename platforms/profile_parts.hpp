#pragma once
// The parts of a profile file's objects besides their fields (profile_fields.hpp), for whoever reads or writes them, or looks for
// a number: a visitor is told of each part.

#include <concepts>
#include <string_view>
#include <type_traits>
#include <variant>

#include "platforms/profile_fields.hpp"

namespace rehearse {

/// The place of a stated number, time or rate above 0; else nothing is found.
NumberPlace find_number(Profile& profile, std::string_view pointer);

template <class Value, class Type>
concept Is = std::same_as<std::remove_const_t<Value>, Type>;

inline constexpr bool kWithSource = true;  // of numbers by names, among which a text says where they are from

void visit_parts(auto&, auto&) {}

void visit_parts(auto& visitor, Is<GpuParameters> auto& gpu) {
  visitor.numbers("peak_efficiency", gpu.peak_efficiency, kShare, kRequired);
  visitor.numbers("update_accesses", gpu.update_accesses, {0, 1000, "0 to 1000 accesses for each scalar"});
}

void visit_parts(auto& visitor, Is<ServerParameters> auto& servers) {
  visitor.object("between_processes", servers.between_processes);
  visitor.object("in_process", servers.in_process);
}

void visit_parts(auto& visitor, Is<NetworkParameters> auto& network) {
  visitor.numbers("nic_efficiency_of", network.nic_efficiency_of, kShare);
}

void visit_parts(auto& visitor, Is<CollectiveProtocol> auto& protocol) { visitor.object("tuner", protocol.tuner); }

void visit_parts(auto& visitor, Is<CollectiveParameters> auto& parameters) {
  if (visitor.enters("protocols", parameters.states_protocols)) visitor.objects("protocols", parameters.protocols);
}

void visit_parts(auto& visitor, Is<CollectiveLibrary> auto& library) {
  visitor.same(library.otherwise);
  visitor.objects("by_generation", library.by_generation);
  visitor.objects("by_interconnect", library.by_interconnect);
}

void visit_parts(auto& visitor, Is<Framework> auto& framework) {
  visitor.object("memory", framework.memory);
  visitor.object("errors", framework.errors);
}

void visit_parts(auto& visitor, Is<CheckpointParameters> auto& checkpoint) {
  visitor.object("write", checkpoint.write, kRequired);
  visitor.object("upload", checkpoint.upload);
}

void visit_parts(auto& visitor, Is<StartupParameters> auto& startup) {
  visitor.object("framework", startup.framework);
  visitor.list("provisioning", startup.provisioning);
  visitor.list("staging", startup.staging);
  visitor.list("booting", startup.booting);
}

void visit_parts(auto& visitor, Is<StartupTime> auto& time) {
  visitor.same(time.condition);
  visitor.object("time", time.time, kRequired);
}

void visit_parts(auto& visitor, Is<Distribution> auto& distribution) {
  std::visit([&](auto& law) { visitor.same(law); }, distribution.law);
}

/// The sections that scenarios may need and a profile may leave out.
void visit_sections(auto& visitor, auto& profile) {
  visitor.object("host", profile.host);
  visitor.object("gpu", profile.gpu);
  visitor.object("servers", profile.servers);
  visitor.object("network", profile.network);
  visitor.object("collectives", profile.stated_collectives);
  visitor.list("step_times", profile.step_times);
}

/// The others whose numbers are all in tables.
void visit_more_sections(auto& visitor, auto& profile) {
  visitor.object("power", profile.power);
  visitor.numbers("sustained_draw", profile.sustained_draw, {1, 10, "a factor of 1 to 10"}, kOptional, kWithSource);
  visitor.object("checkpoint", profile.checkpoint);
  visitor.object("startup", profile.startup);
}

}  // namespace rehearse
