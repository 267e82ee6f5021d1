#pragma once
// Tables and report.html of what `rehearse provision` found.

#include <string>

#include "sim/app/output/document.hpp"
#include "sim/plan/provision_run.hpp"

namespace rehearse {

/// The plans: all of them, or those on the frontier, of planners, and the nearest misses.
Table plans_table(const ProvisionCase& provision_case, const Provision& result, bool is_complete);
Table planners_table(const ProvisionCase& provision_case, const Provision& result);

/// "5*g3.8xlarge;3*g3.16xlarge: 2549 s, 5.33 USD, ..."
std::string plan_in_words(const ProvisionCase& provision_case, const ProposedPlan& proposed);

std::string provision_report(const ProvisionCase& provision_case, const ProvisionOptions& options,
                             const Provision& result);

}  // namespace rehearse
