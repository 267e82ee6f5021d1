#pragma once
// One writer at a time.

#include <filesystem>
#include <string>

#include "sim/base/pinned.hpp"

namespace rehearse {

/// Holds `output` for this process, by flock() on the file `output`.lock, in which its process id stands and which goes
/// away with this object. A killed process leaves the file, but not the lock.
class OutputLock : private Pinned {
 public:
  /// Takes it. NoResultError that names `output` and the process that holds it; InputError if the file cannot be made.
  explicit OutputLock(const std::filesystem::path& output);
  ~OutputLock();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace rehearse
