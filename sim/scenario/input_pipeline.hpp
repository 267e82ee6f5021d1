#pragma once
// How samples come from storage into the memory of a worker's machine.

#include <optional>

#include "sim/base/units.hpp"

namespace rehearse {

struct Group;
struct Scenario;

/// Loaders, processes or threads of each worker, each of which reads a sample, decodes it, and takes the next one.
struct InputPipeline {
  Bytes sample_size{};                             // of a stored sample; 0: nothing is read
  std::optional<BytesPerSecond> read_rate;         // of what each machine reads from; none: as fast as you like
  std::optional<BytesPerSecond> shared_read_rate;  // of what all machines read from together; none: the same
  Seconds decode_time{};                           // of one vCPU for a sample: decompression, augmentation
  std::optional<int> loaders;                      // of each worker; none: its share of the machine's vCPUs, or itself
  bool prefetches = true;                          // the next batch is loaded while the GPUs compute
};

/// What a worker's loaders take for a sample while all workers load:
///   max((decode_time + sample_size / read_rate) / loaders,   a loader waits for what it reads
///       decode_time / vCPUs of the worker,                 its share of the machine's, 1 at least
///       sample_size * workers of the machine / read_rate,
///       sample_size * workers / shared_read_rate)
/// 0 without a pipeline. Bytes that are read do not take part in what the network carries, nor decoding in what servers and
/// gradients take of the same cores.
Seconds load_time_of_sample(const Scenario& scenario, const Group& group);

}  // namespace rehearse
