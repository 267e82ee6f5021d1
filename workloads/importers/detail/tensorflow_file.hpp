#pragma once
// Which of TensorFlow's files of graphs one is, by how it begins.

#include <optional>

#include "workloads/importers/graph_def.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse::tensorflow {

struct Form {
  GraphDefForm form;
  bool is_text;
};

/// Nothing: none of them.
std::optional<Form> form_of(const Source& source);

}  // namespace rehearse::tensorflow
