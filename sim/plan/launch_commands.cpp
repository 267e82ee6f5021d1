#include "sim/plan/launch_commands.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

#include "sim/base/names.hpp"
#include "sim/base/shell.hpp"

namespace rehearse {

namespace {

/// What is asked for before anything is started.
struct LaunchVariable {
  const char* name;
  const char* what;
};

struct CloudProvider {
  const char* name;      // Instance::provider
  const char* skypilot;  // its name there
  const char* custom;    // types that begin so are described, not sold by this name
  const char* before;    // what the type's name has in front
  std::array<LaunchVariable, 3> variables;
};

constexpr std::array kCloudProviders{
    CloudProvider{"aws",
                  "aws",
                  "ec2-custom",
                  "",
                  {{{"IMAGE", "the machine image, ami-..."},
                    {"KEY", "the name of the key pair"},
                    {"PLACEMENT_GROUP", "a placement group (strategy cluster) of the region"}}}},
    CloudProvider{"gce",
                  "gcp",
                  "gce-custom",
                  "",
                  {{{"ZONE", "a zone of the region"},
                    {"IMAGE_FAMILY", "the family of the machine image"},
                    {"IMAGE_PROJECT", "the project that has it"}}}},
    CloudProvider{"azure",
                  "azure",
                  "azure-custom",
                  "Standard_",
                  {{{"IMAGE", "the machine image"},
                    {"RESOURCE_GROUP", "the resource group"},
                    {"SSH_KEY", "the name of the ssh key"}}}}};

/// Whether providers have types of such names: a name of the user's own may hold anything.
bool is_plain(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  });
}

const CloudProvider* provider_of(const Group& group) {
  if (!is_plain(group.instance.name)) return nullptr;
  for (const CloudProvider& provider : kCloudProviders)
    if (group.instance.provider == provider.name && !group.instance.name.starts_with(provider.custom)) return &provider;
  return nullptr;
}

/// As names of machines may be: lower-case letters, digits and "-", first a letter.
std::string cloud_name(const std::string& name) {
  std::string text;
  for (const char c : name.substr(0, 40)) {
    const auto byte = static_cast<unsigned char>(c);
    text += std::isalnum(byte) != 0 && byte < 128 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0 ? "m-" + text : text;
}

/// A machine type to be started, and the name of its group in a cloud, no two of which are the same.
struct LaunchedGroup {
  const Group* group;
  std::string name;
};

/// Machines that are there from the beginning, with a place of their own.
std::vector<LaunchedGroup> launched_groups(const Scenario& scenario) {
  std::vector<LaunchedGroup> launched;
  std::set<std::string> taken;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0 || provider_of(group) == nullptr) continue;
    const std::string name = cloud_name(group.name);
    std::string free = name;
    for (int i = 2; !taken.insert(free).second; ++i) free = name + "-" + std::to_string(i);
    launched.push_back({&group, free});
  }
  return launched;
}

/// The command that starts "$2" machines.
std::string start_command(const Group& group, const std::string& name) {
  const bool is_spot = group.market == Market::kSpot;
  const std::string region = shell_word(group.region), provider = group.instance.provider;
  const std::string type = shell_word(provider_of(group)->before + group.instance.name);
  if (provider == "aws")
    return "aws ec2 run-instances --region " + region + " --instance-type " + type +
           " --count \"$2\" --image-id \"$IMAGE\" --key-name \"$KEY\" --placement \"GroupName=$PLACEMENT_GROUP\"" +
           (is_spot ? " --instance-market-options MarketType=spot" : "") +
           " --tag-specifications 'ResourceType=instance,Tags=[{Key=Name,Value=" + name + "}]'";
  if (provider == "gce")
    return "gcloud compute instances bulk create --name-pattern '" + name + "-####' --count \"$2\" --zone \"$ZONE\"" +
           " --machine-type " + type + " --image-family \"$IMAGE_FAMILY\" --image-project \"$IMAGE_PROJECT\"" +
           " --maintenance-policy TERMINATE" +
           (is_spot ? " --provisioning-model SPOT --instance-termination-action DELETE" : "");
  return "az vm create --resource-group \"$RESOURCE_GROUP\" --name " + name +
         "-\"$(date +%s)\" --count \"$2\" --location " + region + " --size " + type +
         " --image \"$IMAGE\" --ssh-key-name \"$SSH_KEY\"" +
         (is_spot ? " --priority Spot --eviction-policy Delete --max-price -1" : "");
}

std::string described(const Group& group) {
  return std::to_string(group.count) + " x " + group.instance.name + " (" + group.instance.provider + ", " +
         printable(group.region) + ", " + (group.market == Market::kSpot ? "spot" : "on demand") + ")";
}

}  // namespace

std::string launch_script(const Scenario& scenario) {
  const std::vector<LaunchedGroup> groups = launched_groups(scenario);
  if (groups.empty()) return {};
  std::string script =
      "#!/bin/sh\n# Starts the machines of a plan. Written by rehearse, which has not run it: what it starts costs "
      "money.\n";
  for (const auto& [group, name] : groups) script += "#   " + name + ": " + described(*group) + "\n";
  script +=
      "# sh launch.sh            all of them\n# sh launch.sh GROUP N    N more of a group, in place of machines that "
      "were taken back\n";
  for (const Group& group : scenario.groups)
    if (group.colocated_with < 0 && provider_of(group) == nullptr)
      script += "# Not started by this script: group " + printable(group.name) + ", " + std::to_string(group.count) +
                " x " + printable(group.instance.name) + "\n";
  for (const auto& [group, name] : groups)
    if (group->instance.provider == "aws" && group->instance.transport == NetworkTransport::kRdma)
      script += "# " + name +
                " exchanges over EFA in the plan: its machines need an interface of that kind on each network card "
                "(--network-interfaces).\n";
  script += "set -eu\n";
  for (const CloudProvider& provider : kCloudProviders) {
    const bool is_used =
        std::ranges::any_of(groups, [&](const LaunchedGroup& one) { return provider_of(*one.group) == &provider; });
    for (const LaunchVariable& variable : provider.variables)
      if (is_used && script.find(": \"${" + std::string{variable.name} + ":?") == std::string::npos)
        script += ": \"${" + std::string{variable.name} + ":?expected " + variable.what + "}\"\n";
  }
  script += "\nstart() {\n  case $1 in\n";
  for (const auto& [group, name] : groups) script += "    " + name + ") " + start_command(*group, name) + " ;;\n";
  script +=
      "    *) echo \"launch.sh: unknown group $1\" >&2; exit 2 ;;\n  esac\n}\n\nif [ $# -eq 2 ]; then\n  start \"$1\" "
      "\"$2\"\nelse\n";
  for (const auto& [group, name] : groups) script += "  start " + name + " " + std::to_string(group->count) + "\n";
  return script + "fi\n";
}

std::string skypilot_task(const Scenario& scenario) {
  const std::vector<LaunchedGroup> groups = launched_groups(scenario);
  if (groups.size() != 1 || scenario.groups.size() != 1) return {};
  const Group& group = *groups.front().group;
  const CloudProvider& provider = *provider_of(group);
  const bool is_spot = group.market == Market::kSpot;
  return std::string{"# "} +
         (is_spot ? "sky jobs launch sky.yaml: starts machines again that are taken back\n" : "sky launch sky.yaml\n") +
         "# Written by rehearse, which has not run it: what it starts costs money.\n"
         "resources:\n  infra: " +
         provider.skypilot + "/" + cloud_name(group.region) + "\n  instance_type: " + provider.before +
         group.instance.name + "\n  use_spot: " + (is_spot ? "true" : "false") +
         "\nnum_nodes: " + std::to_string(group.count) +
         "\nrun: |\n"
         "  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc-per-node=$SKYPILOT_NUM_GPUS_PER_NODE \\\n"
         "    --node-rank=$SKYPILOT_NODE_RANK --master-addr=$(echo \"$SKYPILOT_NODE_IPS\" | head -n 1) train.py\n";
}

void write_launch(const Scenario& scenario, OutputFolder& files) {
  if (const std::string script = launch_script(scenario); !script.empty()) files.write("launch.sh", script);
  if (const std::string task = skypilot_task(scenario); !task.empty()) files.write("sky.yaml", task);
}

}  // namespace rehearse
