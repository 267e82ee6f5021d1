#include "workloads/traces/detail/characters.hpp"

#include <cerrno>
#include <cstring>

#include "sim/base/errors.hpp"

namespace rehearse {

UnpackedFile::UnpackedFile(const std::filesystem::path& file, const Budget& budget)
    : budget_{budget}, name_{file.string()}, file_{::gzopen(name_.c_str(), "rb")} {
  const int why = errno;
  const bool is_folder = std::filesystem::is_directory(file);
  if (!file_ || is_folder) throw InputError{name_ + ": cannot read: " + std::strerror(is_folder ? EISDIR : why)};
  constexpr unsigned kBuffer = 1 << 16;
  ::gzbuffer(file_.get(), kBuffer);
}

std::size_t UnpackedFile::read(char* bytes, std::size_t size) {
  budget_.check();
  const int count = ::gzread(file_.get(), bytes, static_cast<unsigned>(size));
  int error = Z_OK;
  if (count < 0 || (count == 0 && (::gzerror(file_.get(), &error), error != Z_OK)))
    throw InputError{name_ + ": the gzip data are damaged or cut short"};
  return static_cast<std::size_t>(count);
}

}  // namespace rehearse
