#pragma once
// One writer at a time.

#include <filesystem>
#include <string>

namespace rehearse {

/// Holds `output` for this process, by flock() on the file `output`.lock, in which its process id stands and which goes
/// away with this object. A killed process leaves the file, but not the lock.
class OutputLock {
 public:
  /// Takes it. NoResultError that names `output` and the process that holds it; InputError if the file cannot be made.
  explicit OutputLock(const std::filesystem::path& output);
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;
  ~OutputLock();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace rehearse
