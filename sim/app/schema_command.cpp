#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "calibration/kernel_study.hpp"
#include "calibration/lifetime_study.hpp"
#include "calibration/study.hpp"
#include "calibration/training_fit.hpp"
#include "platforms/schemas.hpp"
#include "predictor/grouped_graphs.hpp"
#include "predictor/measurement_list.hpp"
#include "predictor/space.hpp"
#include "sim/app/output/schema_keys.hpp"
#include "sim/app/schema_kinds.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/provision_request.hpp"
#include "sim/plan/sweep_request.hpp"
#include "sim/queue/queue_file.hpp"
#include "sim/scenario/scenario.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

std::span<const SchemaKind> schema_kinds() {
  static constexpr std::array kKinds{
      SchemaKind{"scenario", scenario_schema},
      SchemaKind{"model", [] { return std::string{model_schema()}; }},
      SchemaKind{"profile", profile_schema},
      SchemaKind{"catalog", catalog_schema},
      SchemaKind{"accelerator", accelerator_schema},
      SchemaKind{"instance", instance_schema},
      SchemaKind{"interconnect", interconnect_schema},
      SchemaKind{"region_link", region_link_schema},
      SchemaKind{"spot_pool", spot_pool_schema},
      SchemaKind{"storage", storage_schema},
      SchemaKind{"messaging", messaging_schema},
      SchemaKind{"prices", price_history_schema},
      SchemaKind{"study", study_schema},
      SchemaKind{"study_set", study_set_schema},
      SchemaKind{"kernels", kernel_study_schema},
      SchemaKind{"lifetimes", lifetime_study_schema},
      SchemaKind{"training_logs", training_log_study_schema},
      SchemaKind{"sweep", sweep_schema},
      SchemaKind{"provision", provision_schema},
      SchemaKind{"queue", queue_schema},
      SchemaKind{"space", space_schema},
      SchemaKind{"measurements", measurement_list_schema},
      SchemaKind{"grouped_graphs", grouped_graphs_schema},
  };
  return kKinds;
}

bool is_schema_kind(const std::string& name) {
  return std::ranges::find(schema_kinds(), name, &SchemaKind::name) != schema_kinds().end();
}

namespace {

struct SchemaCommand {
  CommonOptions common;
  std::string kind;
  bool prints_keys = false;
};

void add_options(Options options, SchemaCommand& command) {
  std::string kinds;
  for (const SchemaKind& kind : schema_kinds()) kinds += (kinds.empty() ? "" : ", ") + std::string{kind.name};
  options.add_option("KIND", command.kind, kinds).required();
  options.add_flag("--keys", command.prints_keys, "Print a line for each key instead of the schema");
  add_json(options, command.common, "Print the schema, which is JSON: as without");
}

Answer run(const SchemaCommand& command) {
  const std::string& kind = command.kind;
  const auto found = std::ranges::find(schema_kinds(), kind, &SchemaKind::name);
  if (found == schema_kinds().end()) {
    std::vector<std::string> known;
    for (const SchemaKind& other : schema_kinds()) known.emplace_back(other.name);
    throw InputError{"schema: " + unknown_name_message("kind", kind, known)};
  }
  const std::string schema = found->schema();
  const std::string text = command.prints_keys ? schema_keys(parse_json(schema, kind), is_schema_kind) : schema;
  return {.json = text, .parts = {text}};
}

}  // namespace

CommandVerb schema_verb() {
  return make_verb<SchemaCommand>("schema",
                                  "JSON Schema of a file kind, or its keys\n\nExample: rehearse schema scenario --keys",
                                  add_options, run);
}

}  // namespace rehearse
