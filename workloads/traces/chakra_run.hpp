#pragma once
// Chakra's traces as what is replayed, and back.
//
// A node waits for its data dependencies. It waits for its control dependencies, too, unless the trace was converted
// from PyTorch's: there they are calls, and a node that calls another one ends after it. What is on one thread, or one
// stream, comes one after the other, in the order of the nodes' ids as far as their dependencies leave it open: that is
// the order in which they were issued. Where no node names a thread or a stream, all share one thread and two streams,
// one for computation and one for communication, as on the simulator that these traces were made for.

#include "workloads/traces/chakra.hpp"
#include "workloads/traces/recorded_run.hpp"

namespace rehearse {

/// What chakra_trace() wrote is read back as it was. Throws InputError "FILE: node 17 "aten::add": data_deps: node 9 is
/// not in the file", or if two nodes have the same id, or nodes wait for each other in a circle, with their names.
RecordedRun recorded_run(const ChakraTrace& trace);

/// Dependencies of every reason are data dependencies. Attributes of Rehearse's own keep what the schema has no place
/// for: times in nanoseconds, reasons, the marked steps, and the latencies of launches and between kernels. Readers that
/// do not know them take those latencies as 0.
ChakraTrace chakra_trace(const RecordedRun& run);

}  // namespace rehearse
