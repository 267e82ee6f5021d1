#pragma once
// timeline.json.gz: a Chrome trace, which Perfetto opens. Process = machine; threads = steps, GPU, cores, one per
// connection end.

#include <functional>
#include <string_view>

#include "sim/record/resource_profile.hpp"
#include "sim/record/run_record.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// JSON, given to `write` in parts. Spans outside of the scenario's timeline window are left out, those that cross its borders are
/// cut. On every track spans are in order of time and do not overlap. Arrows lead from a message's sender to its
/// receiver; counters show the resource profile. Times are microseconds with three decimals.
void write_timeline(const Scenario& scenario, const RunRecord& record, const ResourceProfile& profile,
                    const std::function<void(std::string_view)>& write);

}  // namespace rehearse
