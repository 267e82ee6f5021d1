#pragma once
// A part of all-reduces: workers hold the model together, each of them a stage. How it is cut: pipeline_stages.hpp; the order of
// a stage's work: pipeline_schedule.hpp; the program of a step: compile_pipeline.cpp.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

StrategyKeys pipeline_keys();
/// Its micro-batches are the batches that a step accumulates. Nothing if it has one stage: a worker with the whole model.
std::optional<Pipeline> read_pipeline(const JsonReader& json, const JsonReader& strategy, Scenario& scenario,
                                      Json& effective);

/// "pipelines of 4 stages (1F1B)", "pipelines of 4 stages (interleaved 1F1B, 2 chunks)".
std::string title_of(const Pipeline& pipeline);
/// Throws InputError if the model cannot be cut so, once kernel times are known.
void check_pipeline(const Scenario& scenario, const JsonReader& json);
/// Of cuts by what kernels take: that GPUs differ, or messages do, of which the cut takes no account.
std::vector<std::string> warnings_of_pipeline(const Scenario& scenario);
/// "stages pass on ...; in each step pipelines add up ".
std::string passed_text(const Scenario& scenario);

}  // namespace rehearse
