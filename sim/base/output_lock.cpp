#include "sim/base/output_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

/// Whether `descriptor` is still what `path` names: the one who held it before may have removed it.
bool is_at(int descriptor, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/// Digits that the holder wrote.
std::string holder_in(int descriptor) {
  std::array<char, 20> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  std::string digits;
  for (ssize_t i = 0; i < size && text[static_cast<std::size_t>(i)] >= '0' && text[static_cast<std::size_t>(i)] <= '9';
       ++i)
    digits += text[static_cast<std::size_t>(i)];
  return digits;
}

}  // namespace

OutputLock::OutputLock(const fs::path& output) : path_{output.string() + ".lock"} {
  const std::string shown = shortened(output.string(), 4096);
  const auto fail = [&](int error) {
    throw InputError{shown + ": cannot lock: " + shortened(path_.string(), 4096) + ": " +
                     std::generic_category().message(error)};
  };
  while (descriptor_ < 0) {
    const int opened = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (opened < 0) fail(errno);
    if (::flock(opened, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string holder = error == EWOULDBLOCK ? holder_in(opened) : "";
      ::close(opened);
      if (error != EWOULDBLOCK) fail(error);
      throw NoResultError{shown + ": " + (holder.empty() ? "another process" : "process " + holder) +
                          " is writing it: wait until that has ended, or choose another output"};
    }
    if (is_at(opened, path_))
      descriptor_ = opened;
    else
      ::close(opened);
  }
  const std::string own = std::to_string(::getpid()) + "\n";
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, own.data(), own.size(), 0) != static_cast<ssize_t>(own.size())) {
    const int error = errno;  // such as a full disk
    ::unlink(path_.c_str());
    ::close(descriptor_);
    fail(error);
  }
}

OutputLock::~OutputLock() {
  ::unlink(path_.c_str());  // before others can lock it
  ::close(descriptor_);
}

}  // namespace rehearse
