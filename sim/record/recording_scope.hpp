#pragma once
// What of a run is recorded, as its user says it.

#include <string>

#include "sim/record/recorder.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// What to record, from the texts "10s..12s" and "0,8..15" (workers, whose machines are recorded); empty: all. Throws
/// InputError.
RecordingScope read_recording_scope(const std::string& window, const std::string& workers, const Site& site);

}  // namespace rehearse
