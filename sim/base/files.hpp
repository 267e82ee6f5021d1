#pragma once
// Whole files at once. Every failure is an InputError that names the path and the system's reason.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearse {

inline constexpr std::size_t kMiB = std::size_t{1} << 20U;

/// The content of `path`; InputError if it is no regular file (pipes, devices and sockets have no end that can be
/// relied on), cannot be read or holds more than `max_size` bytes.
std::string read_file(const std::filesystem::path& path, std::size_t max_size);

/// The first bytes of `path`, fewer than `size` if it has no more; InputError as of read_file().
std::string read_file_start(const std::filesystem::path& path, std::size_t size);

/// Throws InputError unless `path` is a regular file that can be read: for libraries that open files themselves.
void require_regular_file(const std::filesystem::path& path);

/// What a file is called that says nothing: "an empty file", or "a file of white space alone", whether or not there is a
/// byte order mark. Empty for all other content.
std::string_view emptiness(std::string_view content);

/// Replaces `path` in one step: readers see the old content or the new, never a part, and a failure leaves the old.
/// The folder must exist. Symbolic links are followed; devices and pipes such as /dev/stdout are written directly.
void write_file(const std::filesystem::path& path, std::string_view content);

/// The same for several files: all are written beside their places first, so that a full disk leaves all of the old
/// ones.
void write_files(const std::vector<std::pair<std::filesystem::path, std::string>>& files);

/// gzip format without time stamp or name: same content, same bytes.
std::string gzip(std::string_view content);

/// The same of what is added bit by bit.
class Gzip {
 public:
  Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip();

  void add(std::string_view content) { deflate(content, false); }
  /// All of it, packed. Nothing is added afterwards.
  std::string finish();

 private:
  struct Stream;
  void deflate(std::string_view content, bool is_end);

  std::unique_ptr<Stream> stream_;
  std::string packed_;
};

/// The content of `compressed` (gzip format). InputError, starting with `file_name`, if that is damaged, cut short, or
/// would give more than `max_size` bytes.
std::string gunzip(std::string_view compressed, std::size_t max_size, std::string_view file_name);

}  // namespace rehearse
