#pragma once
// How the machines of a plan are started at their providers: commands that are written, never run.

#include <string>

#include "sim/base/output_folder.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// A shell script with the command-line tools of Amazon (aws), Google (gcloud) and Microsoft (az): `sh launch.sh` starts all machines
/// of the scenario, `sh launch.sh GROUP N` N more of a group, such as in place of those that a provider took back. What nobody but
/// the user knows (image, key, zone, subnet) are variables that it asks for. Empty if no group is of one of the three, or of a
/// type that a provider does not sell by a name. Sources: aws ec2 run-instances, gcloud compute instances bulk create, az vm create,
/// of the providers' references of commands.
std::string launch_script(const Scenario& scenario);

/// A task of SkyPilot (docs.skypilot.co, YAML specification) that trains on the scenario's machines; empty unless they are of one
/// such type, without servers of their own.
std::string skypilot_task(const Scenario& scenario);

/// Both of them, where they are not empty, as launch.sh and sky.yaml.
void write_launch(const Scenario& scenario, OutputFolder& files);

}  // namespace rehearse
