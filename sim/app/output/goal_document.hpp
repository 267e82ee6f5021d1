#pragma once
// What `rehearse provision` answers to a goal of training, as text and as a page.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/plan/goal.hpp"

namespace rehearse {

/// What was asked.
struct AskedGoal {
  TrainingGoal goal;
  std::string model;
  int positions = 0;                   // tokens of a sample; 0: it has none
  std::vector<std::string> unmatched;  // what was asked for by name and is in no candidate, with the reason
};

/// The best plan of each set of machines, the fastest first; of more than `most` the answer, the frontier and the cheapest others.
Table goal_plans_table(const GoalAnswer& answer, const std::optional<Seconds>& deadline, std::size_t most);
/// The next plans on the same machines, and what each loses by.
Table next_plans_table(const GoalPlan& plan);
/// How many plans were looked at, and how.
std::string goal_search_text(const GoalPlan& plan);
/// Sets of machines that were not searched, those first that would cost the least at their peak: `most` of them.
std::vector<std::string> left_out_texts(const GoalAnswer& answer, const AskedGoal& asked, std::size_t most);
/// The answer, which there is, in a sentence. `interval`: of its time, as factors.
std::string goal_sentence(const GoalAnswer& answer, const AskedGoal& asked,
                          const std::optional<std::pair<double, double>>& interval);
/// `refused`: a faster plan that does not fit into memory, and what it would take; may be empty.
std::string goal_report(const GoalAnswer& answer, const AskedGoal& asked,
                        const std::optional<std::pair<double, double>>& interval, const std::string& refused);

}  // namespace rehearse
