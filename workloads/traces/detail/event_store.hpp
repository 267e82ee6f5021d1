#pragma once
// Events of a trace, in the order of their dates: in memory if they are few, otherwise in a temporary file.

#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "workloads/traces/kineto.hpp"

namespace rehearse {

class EventStore {
 public:
  /// So many are held in memory while they come, at 64 bytes.
  explicit EventStore(std::size_t most_in_memory) : most_in_memory_{most_in_memory} {}

  void add(const KinetoEvent& event);
  std::size_t size() const { return stored_ + buffer_.size(); }

  /// Those that `keeps` wants, which is asked in the order of the result: by start, of those that start together the
  /// longest first, then as they came. The store is empty afterwards.
  std::vector<KinetoEvent> take(const std::function<bool(const KinetoEvent&)>& keeps);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void sort_buffer();
  void spill();

  std::size_t most_in_memory_;
  std::vector<KinetoEvent> buffer_;
  std::size_t stored_ = 0;                  // in the file: sorted runs of most_in_memory_ each
  std::unique_ptr<std::FILE, Close> file_;  // without a name: it is gone when we are
};

}  // namespace rehearse
