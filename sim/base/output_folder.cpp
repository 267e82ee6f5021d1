#include "sim/base/output_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr const char* kList = ".rehearse-files";
constexpr const char* kStagingPrefix = ".rehearse-new-";
constexpr std::size_t kLongestList = 16 * kMiB;

constexpr std::string_view kEndedInCommit =
    "The files in this folder are of two runs: rehearse was ended while it replaced those of the earlier one. "
    "Run it again.\n";

/// A folder that goes at a sudden end of the process. In a place of its own, as a signal handler may not allocate.
struct AtSuddenEnd {
  enum State { kFree, kClaimed, kIfEmpty, kWithAllInIt };
  std::atomic<State> state{kFree};
  std::array<char, PATH_MAX> path{};
};
std::array<AtSuddenEnd, 32> at_sudden_end;  // enough for the folders of one command

/// Its place; -1 if there is no room, which leaves the folder there.
int remove_at_sudden_end(const fs::path& folder, AtSuddenEnd::State how) {
  const std::string path = fs::absolute(folder).string();
  if (path.size() >= PATH_MAX) return -1;
  for (std::size_t i = 0; i < at_sudden_end.size(); ++i) {
    AtSuddenEnd::State state = AtSuddenEnd::kFree;
    if (!at_sudden_end[i].state.compare_exchange_strong(state, AtSuddenEnd::kClaimed)) continue;
    std::memcpy(at_sudden_end[i].path.data(), path.c_str(), path.size() + 1);
    at_sudden_end[i].state = how;
    return static_cast<int>(i);
  }
  return -1;
}

void keep_at_sudden_end(int place) {
  if (place >= 0) at_sudden_end[static_cast<std::size_t>(place)].state = AtSuddenEnd::kFree;
}

/// The names of the files of each run in a folder.
using Runs = std::vector<std::vector<std::string>>;

[[noreturn]] void fail(const fs::path& path, const std::string& what, int error) {
  throw InputError{shortened(path.string(), 4096) + ": " + what + ": " + std::generic_category().message(error)};
}

void rename_into(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "cannot write", errno);
}

int open_folder(const fs::path& folder) { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

/// Whether a name of the list is one that this program may have written: below the folder.
bool is_inside(const fs::path& name) {
  return name.is_relative() && !name.empty() && std::find(name.begin(), name.end(), "..") == name.end();
}

/// A line for each name, an empty one between runs.
Runs read_list(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(folder / kList, error)) return {};
  Runs runs(1);
  std::istringstream lines{read_file(folder / kList, kLongestList)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty())
      runs.emplace_back();
    else if (is_inside(line))
      runs.back().push_back(line);
  }
  return runs;
}

std::string lines_of(const Runs& runs) {
  std::string text;
  for (const std::vector<std::string>& names : runs) {
    if (names.empty()) continue;
    if (!text.empty()) text += "\n";
    for (const std::string& name : names) text += name + "\n";
  }
  return text;
}

void make_folder_above(const fs::path& file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) fail(file.parent_path(), "cannot create this folder", error.value());
}

/// Whether a commit was ended before its end. The last run of the list is the one that it was of.
bool was_ended_in_commit(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kIncompleteMark, error) &&
         read_file_start(folder / kIncompleteMark, kEndedInCommit.size()) == kEndedInCommit;
}

/// Those of killed runs: nobody holds their lock.
void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator{folder, error}) {
    if (!entry.path().filename().string().starts_with(kStagingPrefix)) continue;
    const int lock = open_folder(entry.path());
    if (lock < 0) continue;
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), error);
    ::close(lock);
  }
}

void remove_empty(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) ::rmdir(folder.c_str());  // does nothing if something is in it
}

}  // namespace

void remove_unfinished_output() noexcept {
  for (const AtSuddenEnd& folder : at_sudden_end) {
    if (folder.state != AtSuddenEnd::kWithAllInIt) continue;
    const pid_t child = ::fork();  // what walks through folders allocates; another program may
    if (child == 0) {
      ::execl("/bin/rm", "rm", "-rf", "--", folder.path.data(), static_cast<char*>(nullptr));
      ::_exit(1);
    }
    if (child > 0) (void)::waitpid(child, nullptr, 0);
  }
  for (const AtSuddenEnd& folder : at_sudden_end)
    if (folder.state == AtSuddenEnd::kIfEmpty) (void)::rmdir(folder.path.data());
}

void require_complete(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kIncompleteMark, error))
    throw InputError{shortened(folder.string(), 4096) +
                     ": is incomplete: a run was ended while it wrote its files there; run it again"};
}

MadeFolder::MadeFolder(const fs::path& folder) {
  std::error_code error;
  for (fs::path at = fs::absolute(folder).lexically_normal(); !fs::exists(at, error); at = at.parent_path())
    if (at.has_filename()) made_.push_back(at);
  fs::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK) == 0) {
    for (const fs::path& made : made_) at_sudden_end_.push_back(remove_at_sudden_end(made, AtSuddenEnd::kIfEmpty));
    return;
  }
  remove_empty(made_);
  throw InputError{folder.string() + (error ? ": cannot create this folder: " + error.message()
                                            : std::string{": cannot write into this folder"})};
}

MadeFolder::MadeFolder(MadeFolder&& other) noexcept
    : made_{std::exchange(other.made_, {})}, at_sudden_end_{std::exchange(other.at_sudden_end_, {})} {}

MadeFolder::~MadeFolder() {
  std::ranges::for_each(at_sudden_end_, keep_at_sudden_end);
  remove_empty(made_);
}

OutputFolder::OutputFolder(fs::path folder) : folder_{std::move(folder)} {
  remove_leftovers(folder_);
  std::string name = (folder_ / (std::string{kStagingPrefix} + std::string(6, 'X'))).string();
  if (::mkdtemp(name.data()) == nullptr) fail(folder_, "cannot write into this folder", errno);
  staging_ = name;
  at_sudden_end_ = remove_at_sudden_end(staging_, AtSuddenEnd::kWithAllInIt);
  lock_ = open_folder(staging_);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX) != 0) fail(staging_, "cannot lock this folder", errno);
}

OutputFolder::~OutputFolder() {
  std::error_code error;
  fs::remove_all(staging_, error);
  keep_at_sudden_end(at_sudden_end_);
  if (lock_ >= 0) ::close(lock_);
}

fs::path OutputFolder::place(const fs::path& name) {
  std::error_code error;
  if (fs::is_directory(folder_ / name, error)) fail(folder_ / name, "cannot write", EISDIR);
  for (fs::path above = name.parent_path(); !above.empty(); above = above.parent_path())
    if (fs::exists(folder_ / above, error) && !fs::is_directory(folder_ / above, error))
      fail(folder_ / above, "cannot create this folder", ENOTDIR);
  make_folder_above(staging_ / name);
  names_.push_back(name.string());
  return staging_ / name;
}

void OutputFolder::write(const fs::path& name, std::string_view content) {
  try {
    write_file(place(name), content);
  } catch (const InputError& error) {  // the user knows of the folder, not of how it is filled
    std::string message = error.what();
    if (message.starts_with(staging_.string())) message.replace(0, staging_.string().size(), folder_.string());
    throw InputError{message};
  }
}

void OutputFolder::commit() {
  const int lock = open_folder(folder_);  // of the moves: another run's are before or after
  if (lock < 0) fail(folder_, "cannot open this folder", errno);
  const struct Close {
    int file;
    ~Close() { ::close(file); }
  } close{lock};
  (void)::flock(lock, LOCK_EX);
  const std::set<std::string> own{names_.begin(), names_.end()};
  Runs kept = read_list(folder_);
  std::vector<std::string> replaced;
  if (was_ended_in_commit(folder_) && !kept.empty()) {
    replaced = std::move(kept.back());
    kept.pop_back();
  }
  std::erase_if(kept, [&](const std::vector<std::string>& names) {
    const bool is_replaced = std::ranges::any_of(names, [&](const std::string& name) { return own.contains(name); });
    if (is_replaced) replaced.insert(replaced.end(), names.begin(), names.end());
    return is_replaced;
  });
  Runs before = kept, after = kept;
  after.push_back(names_);
  before.push_back(names_);
  before.back().insert(before.back().end(), replaced.begin(), replaced.end());
  // All that needs room is written before anything changes.
  const fs::path list_before = staging_ / (std::string{kList} + ".before"), list_after = staging_ / kList;
  write_file(list_before, lines_of(before));
  write_file(list_after, lines_of(after));
  write_file(staging_ / kIncompleteMark, kEndedInCommit);
  rename_into(list_before, folder_ / kList);
  rename_into(staging_ / kIncompleteMark, folder_ / kIncompleteMark);
  for (const std::string& name : names_) {
    make_folder_above(folder_ / name);
    rename_into(staging_ / name, folder_ / name);
  }
  for (const std::string& name : replaced) {
    std::error_code error;  // what is no file, or cannot be one, is none of an earlier run, whatever the list says
    if (own.contains(name) || !fs::is_regular_file(fs::symlink_status(folder_ / name, error))) continue;
    if (::unlink((folder_ / name).c_str()) != 0)
      fail(folder_ / name, "cannot remove this file of an earlier run", errno);
    for (fs::path above = fs::path{name}.parent_path(); !above.empty(); above = above.parent_path())
      remove_empty({folder_ / above});
  }
  rename_into(list_after, folder_ / kList);
  if (::unlink((folder_ / kIncompleteMark).c_str()) != 0) fail(folder_ / kIncompleteMark, "cannot remove", errno);
}

FolderInParts::FolderInParts(const fs::path& folder) : folder_{folder} {
  write_file(folder_ / kIncompleteMark,
             "rehearse has not finished all parts of this folder. Run the same command again.\n");
}

FolderInParts::~FolderInParts() {
  std::error_code error;
  const bool is_lone = std::all_of(fs::directory_iterator{folder_, error}, fs::directory_iterator{},
                                   [](const auto& entry) { return entry.path().filename() == kIncompleteMark; });
  if (is_lone) finish();
}

void FolderInParts::finish() const {
  std::error_code error;
  fs::remove(folder_ / kIncompleteMark, error);
}

}  // namespace rehearse
