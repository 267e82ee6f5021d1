#include "sim/plan/cluster_variants.hpp"

#include <nlohmann/json.hpp>

namespace rehearse {

Json with_machines(Json effective, std::size_t group, int count) {
  Json& groups = effective["cluster"]["groups"];
  if (count > 0)
    groups[group]["count"] = count;
  else
    groups.erase(group);
  return effective;
}

Json one_machine_alone(Json effective, std::size_t group) {
  Json& groups = effective["cluster"]["groups"];
  const Json name = groups[group]["name"];
  Json kept = Json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool is_server = groups[g].value("role", "") == "parameter_server";
    const bool stays = is_server && (!groups[g].contains("colocated_with") || groups[g]["colocated_with"] == name);
    if (g == group) groups[g]["count"] = 1;
    if (g == group || stays) kept.push_back(groups[g]);
  }
  groups = std::move(kept);
  return effective;
}

}  // namespace rehearse
