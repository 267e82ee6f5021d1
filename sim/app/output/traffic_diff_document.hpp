#pragma once
// diff.html of two traffics: one beside the other.

#include "sim/app/output/document.hpp"
#include "sim/app/traffic_diff.hpp"

namespace rehearse {

/// `diff` is that of `a` and `b`.
Document traffic_diff_document(const TrafficDiff& diff, const RunTraffic& a, const RunTraffic& b);

}  // namespace rehearse
