#include "sim/scenario/find_model.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "workloads/importers/importer.hpp"

namespace rehearse {

FoundModel find_model(const std::string& name, const JsonReader& by, const Catalog& catalog) {
  std::error_code error;
  for (const std::filesystem::path& path : {by.resolve(name), std::filesystem::path{name}}) {
    if (!path.has_extension() || !std::filesystem::is_regular_file(path, error)) continue;
    ImportedModel model = import_model(path);
    const auto imported = std::make_shared<const Json>(std::move(model.model_file));
    return {.name = path.stem().string(),
            .is_file = true,
            .imported = imported,
            .json = JsonReader{*imported, path.string()},
            .remarks = std::move(model.remarks),
            .stored_type = std::move(model.stored_type)};
  }
  return {.name = name, .imported = {}, .json = catalog.model(name, by)};
}

}  // namespace rehearse
