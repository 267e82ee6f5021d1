#include "sim/view/served_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace fs = std::filesystem;

OpenFile::~OpenFile() { ::close(file_); }

std::string OpenFile::read(std::uint64_t offset, std::size_t most) const {
  std::string bytes(most, '\0');
  const ssize_t count = ::pread(file_, bytes.data(), most, static_cast<off_t>(offset));
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

ServedFolder::ServedFolder(const fs::path& folder) {
  const std::string name = shortened(folder.string(), 4096);
  std::error_code error;
  root_ = fs::canonical(folder, error);
  if (error) throw InputError{name + ": expected a folder of results; " + error.message()};
  if (!fs::is_directory(root_, error)) throw InputError{name + ": expected a folder of results; found a file"};
  if (::access(root_.c_str(), R_OK | X_OK) != 0) throw InputError{name + ": cannot read: " + std::strerror(errno)};
}

bool ServedFolder::is_plain(std::string_view relative) {
  if (relative.empty()) return true;
  constexpr std::size_t kMostBytes = 2000;
  if (relative.size() > kMostBytes || find_invalid_utf8(relative) || find_deceptive_character(relative) ||
      relative.find_first_of("\n\t\\") != std::string_view::npos)
    return false;
  for (std::size_t begin = 0; begin <= relative.size();) {
    const std::size_t end = std::min(relative.find('/', begin), relative.size());
    const std::string_view part = relative.substr(begin, end - begin);
    if (part.empty() || part.front() == '.' || part.front() == '-') return false;
    begin = end + 1;
  }
  return true;
}

std::shared_ptr<const OpenFile> ServedFolder::open(std::string_view relative) const {
  if (relative.empty() || !is_plain(relative)) return nullptr;
  // A pipe or a device must not be waited for, nor its state be changed.
  const int file = ::open((root_ / relative).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return nullptr;
  struct stat status {};
  const bool is_regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  auto opened = std::make_shared<const OpenFile>(file, static_cast<std::uint64_t>(status.st_size));
  if (!is_regular) return nullptr;
  // Where the open file is, not where its name led a moment ago.
  std::error_code error;
  const fs::path place = fs::read_symlink("/proc/self/fd/" + std::to_string(file), error);
  return !error && is_inside(place, root_) ? opened : nullptr;
}

std::optional<fs::path> ServedFolder::find(std::string_view relative) const {
  if (!is_plain(relative)) return {};
  std::error_code error;
  fs::path place = fs::canonical(root_ / relative, error);
  if (error || !is_inside(place, root_)) return {};
  return place;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [rest, end] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return rest == folder.end();
}

namespace {

bool is_outside(std::string_view path, const std::vector<fs::path>& from, const std::vector<fs::path>& folders) {
  if (path.empty() || path.find('\0') != std::string::npos) return false;
  return std::ranges::any_of(from, [&](const fs::path& base) {
    std::error_code error;
    const fs::path place = fs::weakly_canonical(base / path, error);
    if (error == std::errc::filename_too_long) return false;  // no system call takes it
    return error || std::ranges::none_of(folders, [&](const fs::path& folder) { return is_inside(place, folder); });
  });
}

/// The same of each value of a list, "a,b", as grids of sweeps have them.
bool has_outside(std::string_view text, const std::vector<fs::path>& from, const std::vector<fs::path>& folders) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (is_outside(text.substr(begin, end - begin), from, folders)) return true;
    begin = end + 1;
  }
  return is_outside(text, from, folders);
}

}  // namespace

std::optional<std::string> find_path_outside(const Json& scenario, const std::vector<fs::path>& from,
                                             const std::vector<fs::path>& folders) {
  constexpr std::array<std::string_view, 5> kNoPaths{"name", "source", "description", "pointer", "constraints"};
  if (scenario.is_string())
    return has_outside(scenario.get_ref<const std::string&>(), from, folders) ? std::optional{std::string{}}
                                                                              : std::nullopt;
  if (!scenario.is_structured()) return {};
  std::size_t index = 0;
  for (const auto& [key, value] : scenario.items()) {
    const std::string step = scenario.is_array() ? std::to_string(index++) : key;
    if (scenario.is_object() && std::ranges::find(kNoPaths, key) != kNoPaths.end()) continue;
    if (const auto below = find_path_outside(value, from, folders)) return extend_json_pointer("", step) + *below;
  }
  return {};
}

}  // namespace rehearse
