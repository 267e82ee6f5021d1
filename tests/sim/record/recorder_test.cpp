// What may be recorded.

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"
#include "sim/record/recorder.hpp"

namespace rehearse {

TEST_CASE("no more is recorded than most_activity") {
  Recorder recorder;
  recorder.keeps_activity = true;
  recorder.most_activity = 2;
  recorder.add(KernelSpan{});
  recorder.add(ServerSpan{});
  CHECK_THROWS_AS(recorder.add(MessageSpan{}), NoResultError);
}

}  // namespace rehearse
