#pragma once
// Waits for all streams at once, which are as many as calls times streams.

#include <cstddef>
#include <string>
#include <utility>

#include "sim/base/errors.hpp"

namespace rehearse {

/// Counts the streams, and what was launched on them, that each call which waits for all of them is compared with. In a
/// training job few threads wait for the device, and streams are few: the sum is a small multiple of the operations.
class WaitBudget {
 public:
  WaitBudget(std::string file_name, std::size_t operations)
      : file_name_{std::move(file_name)}, left_{kLeast + kPerOperation * operations} {}

  /// Throws NoResultError when they are more than a million and 32 for each operation.
  void take_one() {
    if (left_ == 0)
      throw NoResultError{
          file_name_ +
          ": synchronizations or collectives that wait for all streams, times the streams, are more than "
          "a million and 32 for each operation: expected the threads and streams of a training job"};
    --left_;
  }

 private:
  static constexpr std::size_t kLeast = 1'000'000, kPerOperation = 32;

  std::string file_name_;
  std::size_t left_;
};

}  // namespace rehearse
