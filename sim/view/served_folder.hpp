#pragma once
// The folder that `rehearse view` serves, and what lies outside of it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/pinned.hpp"

namespace rehearse {

/// A regular file that is open, so that what its name stands for can change without consequence.
class OpenFile : private Pinned {
 public:
  /// Takes over the descriptor `file`.
  OpenFile(int file, std::uint64_t size) : file_{file}, size_{size} {}
  ~OpenFile();

  std::uint64_t size() const { return size_; }
  /// Bytes from `offset` on, at most `most`; empty at the end of the file, or if it cannot be read.
  std::string read(std::uint64_t offset, std::size_t most) const;

 private:
  int file_;
  std::uint64_t size_;
};

class ServedFolder {
 public:
  /// InputError unless `folder` is a folder that can be read.
  explicit ServedFolder(const std::filesystem::path& folder);

  /// Without symbolic links.
  const std::filesystem::path& root() const { return root_; }

  /// Whether `relative`, such as "runs/first/report.html", has only parts that begin with neither a dot nor a hyphen, and
  /// no control characters: programs take what begins with a hyphen for an option. Empty: the folder itself.
  static bool is_plain(std::string_view relative);

  /// The file of that name; nothing if the name is not plain, it is no regular file, or a symbolic link leads out of the
  /// folder.
  std::shared_ptr<const OpenFile> open(std::string_view relative) const;
  /// The path of what is there by that name, a file or a folder; nothing as of open().
  std::optional<std::filesystem::path> find(std::string_view relative) const;

 private:
  std::filesystem::path root_;
};

/// Whether `path` is `folder` or below it. Both are without symbolic links.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

/// The pointer of the first text of a scenario that names a file outside of all of `folders`, taken from each of `from`,
/// as readers take paths; nothing if there is none. Labels, pointers and formulas (name, source, description, pointer, constraints) are no paths.
std::optional<std::string> find_path_outside(const Json& scenario, const std::vector<std::filesystem::path>& from,
                                             const std::vector<std::filesystem::path>& folders);

}  // namespace rehearse
