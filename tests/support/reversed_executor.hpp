#pragma once
// Another executor behind a pool: from the last job to the first, one at a time, each in a process that is given
// nothing but the text.

#include <string>
#include <vector>

#include "sim/pool/pool.hpp"
#include "tests/support/isolated.hpp"

namespace rehearse::test {

/// `texts` gets those of all jobs.
inline Pool reversed_pool(std::vector<std::string>& texts) {
  return Pool{3, [&texts](std::size_t count, int, const JobOf& job, const OnRun& on_run, const JobLimits&) {
                for (std::size_t i = count; i-- > 0;) {
                  texts.push_back(job(i).text());
                  on_run(i, run_isolated(1, 1, [&](std::size_t) { return run_job(texts.back()); }).front());
                }
                return true;
              }};
}

}  // namespace rehearse::test
