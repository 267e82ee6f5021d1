#pragma once
// Models by the names that users give.

#include <memory>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

struct FoundModel {
  std::string name;  // in the catalogs, or of the file without its ending
  bool is_file = false;
  std::shared_ptr<const Json> imported;  // of a file: what `json` refers to
  JsonReader json;                       // a model file's object
  std::vector<std::string> remarks{};    // what of the file could not be taken over
  std::string stored_type{};             // ImportedModel::stored_type
};

/// The model that a catalog has under `name`, which has no ending there; or of the file `name`, beside the file of `by`
/// or from here on: a model file, or what `rehearse import` makes one of. Throws InputError.
FoundModel find_model(const std::string& name, const JsonReader& by, const Catalog& catalog);

}  // namespace rehearse
