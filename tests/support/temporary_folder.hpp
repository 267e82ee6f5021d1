#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>

#include "sim/base/files.hpp"

namespace rehearse::test {

/// An empty folder that goes away, with what is in it, at the end of the test.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / ("rehearse-" + std::string(6, 'X'))).string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
    path = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  std::filesystem::path operator/(const char* name) const { return path / name; }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    write_file(path / name, content);
    return path / name;
  }
  std::size_t entry_count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{path}, {}));
  }

  std::filesystem::path path;
};

}  // namespace rehearse::test
