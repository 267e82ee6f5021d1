#pragma once
// Folders of results, which change as a whole: whatever ends a run, the folder holds the files of one run, or says that
// it does not.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/pinned.hpp"

namespace rehearse {

/// The file in a folder whose other files do not belong together: a run was ended while it replaced them.
inline constexpr const char* kIncompleteMark = "INCOMPLETE";

/// Throws InputError if `folder` is there and says that it is incomplete.
void require_complete(const std::filesystem::path& folder);

/// For a process that ends at once, without destructors: removes what OutputFolders and MadeFolders of it would remove.
/// May be called by a signal handler.
void remove_unfinished_output() noexcept;

/// A folder for output that is made, with those above it, before the work starts, so that an unwritable place costs
/// nothing. What was not there before goes again at the end if nothing is in it: a refusal leaves nothing.
class MadeFolder {
 public:
  /// Makes it; InputError if it cannot be made, or written into.
  explicit MadeFolder(const std::filesystem::path& folder);
  MadeFolder(MadeFolder&& other) noexcept;
  ~MadeFolder();

 private:
  std::vector<std::filesystem::path> made_;  // the lowest first
  std::vector<int> at_sudden_end_;
};

/// The files of one run on their way into a folder. They are written into a folder of their own inside of it, so a full
/// disk, an error or a kill leaves what was there; commit() moves them to their places, with kIncompleteMark there
/// meanwhile. A file of an earlier run that shares a name with one of these goes with all others of that run: which
/// these are, the folder's list .rehearse-files says; so does a run that was ended during its commit, whatever its files
/// are called. What is not in the list is the user's and stays, unless it has the name of a file of this run. Leftovers
/// of killed runs are removed. Failures are InputErrors that name the path.
class OutputFolder : private Pinned {
 public:
  /// `folder` is there.
  explicit OutputFolder(std::filesystem::path folder);
  /// Without commit() nothing has happened.
  ~OutputFolder();

  /// A file of the run: `name` is relative to the folder.
  void write(const std::filesystem::path& name, std::string_view content);
  /// The path at which something else is to write such a file.
  std::filesystem::path place(const std::filesystem::path& name);
  /// Moves the files to their places.
  void commit();
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::filesystem::path folder_, staging_;
  int lock_ = -1;  // says that this process lives
  int at_sudden_end_ = -1;
  std::vector<std::string> names_;
};

/// A folder whose parts are finished one after the other: marked as incomplete until finish(), and as long as there is
/// a part.
class FolderInParts : private Pinned {
 public:
  explicit FolderInParts(const std::filesystem::path& folder);
  ~FolderInParts();
  /// All parts are there.
  void finish() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace rehearse
