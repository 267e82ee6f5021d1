#pragma once
// Where the tests find the sources and what was built. In a file of their own, so that objects do not depend on it.

#include <string>

namespace rehearse {

const std::string& source_folder();  // root of the repository
const std::string& build_folder();

}  // namespace rehearse
