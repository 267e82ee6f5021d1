#include "tests/support/paths.hpp"

namespace rehearse {

const std::string& source_folder() {
  static const std::string folder = REHEARSE_SOURCE_DIR;
  return folder;
}

const std::string& build_folder() {
  static const std::string folder = REHEARSE_BINARY_DIR;
  return folder;
}

}  // namespace rehearse
