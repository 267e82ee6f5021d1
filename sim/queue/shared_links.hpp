#pragma once
// How much longer jobs take that send over the same links: a closed queueing network.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace rehearse {

/// A job that sends over links, each of which others may use as well.
struct LinkUser {
  struct Use {
    std::size_t link = 0;
    double alone_s = 0;  // of each step in which the job, alone, has the link's whole rate; above 0
  };
  std::vector<Use> uses;
  /// Seconds of a step of which all that is sent takes `slowdown`, from 1, times as long as alone.
  std::function<double(double slowdown)> step_s;
};

/// By what factor, from 1 to the number of its users, the most contended link of each job prolongs what the job sends.
///
/// A link serves all that send at a time equally (processor sharing). A job computes for Z, then sends for V if it is
/// alone. The phases of different jobs are independent, as those of jobs are whose steps differ or vary. Then the mean
/// time of a step is exact, whatever the distributions of Z and V (Baskett, Chandy, Muntz and Palacios, 1975):
///   T_j = G(all) / G(all but j), G = sum over subsets A of |A|! * product of V in A * product of Z of the others.
/// A step that hides some of what it sends has Z = step_s(slowdown) - V * slowdown, at least 0, so that slowdowns are
/// solutions of an equation; the least of them is taken. On several links a job waits for the slowest. So two jobs that
/// only send are half as fast, and what n jobs send is never above the link's rate.
///
/// Alike steps without any variation may lock into phases that never meet, or always do: between 1 and the number of
/// users all is possible then.
std::vector<double> slowdowns_on_links(std::span<const LinkUser> users);

}  // namespace rehearse
