#pragma once
// What a generated dataset holds: for the terminal, as JSON, and as report.html.

#include "predictor/generate.hpp"
#include "sim/app/output/document.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// Percentiles of each label over all settings.
Table label_table(const Generated& generated);
Json to_json(const Space& space, const GenerateRequest& request, const Generated& generated);
Document dataset_document(const Space& space, const GenerateRequest& request, const Generated& generated);

}  // namespace rehearse
