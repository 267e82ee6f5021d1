#pragma once
// Models that importers made, as workloads.

#include <string>

#include "workloads/importers/importer.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse::test {

inline ModelDescription model_of(const ImportedModel& imported) {
  return read_model("model", JsonReader{imported.model_file, "imported"});
}

/// For `batch` samples; timed layers for those with which they were measured.
inline Workload workload_of(const ImportedModel& imported, int batch = 1) {
  const ModelDescription model = model_of(imported);
  const auto* timed = std::get_if<TimedLayers>(&model.structure);
  return build_workload(model, timed != nullptr ? timed->batch : batch, Precision::kFp32, "imported");
}

}  // namespace rehearse::test
