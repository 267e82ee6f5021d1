#include "sim/base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <limits>
#include <system_error>
#include <utility>

#include "sim/base/detail/inflater.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{64} << 10U;

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_to(const char* what, const fs::path& path, const std::string& why) {
  throw InputError{shortened(path.string(), 4096) + ": cannot " + what + ": " + why};
}

std::string size_text(std::size_t size) {
  return size % kMiB == 0 ? std::to_string(size / kMiB) + "MiB" : std::to_string(size) + "B";
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_{descriptor} {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_{std::exchange(other.descriptor_, -1)} {}
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  /// Errors of a delayed write show up here.
  int close() { return ::close(std::exchange(descriptor_, -1)); }

 private:
  int descriptor_;
};

/// Returns 0, or errno.
int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Opened to read. Without O_NONBLOCK the opening of a pipe waits for its writer.
FileDescriptor open_regular(const fs::path& path) {
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  if (file.get() < 0 && errno != ENXIO) fail_to("read", path, reason(errno));  // ENXIO: a socket, or no such device
  struct stat status {};
  if (file.get() >= 0 && ::fstat(file.get(), &status) != 0) fail_to("read", path, reason(errno));
  if (S_ISREG(status.st_mode)) return file;
  if (S_ISDIR(status.st_mode)) fail_to("read", path, reason(EISDIR));
  fail_to("read", path,
          std::string{"expected a regular file; found a "} + (S_ISFIFO(status.st_mode) ? "pipe"
                                                              : file.get() < 0         ? "socket or device"
                                                                                       : "device"));
}

/// At most `most` bytes.
std::string read_up_to(const FileDescriptor& file, const fs::path& path, std::size_t most) {
  struct stat status {};
  std::string content;
  if (::fstat(file.get(), &status) == 0) content.reserve(std::min(static_cast<std::size_t>(status.st_size), most));
  std::array<char, kChunk> buffer;
  while (content.size() < most) {
    const ssize_t count = ::read(file.get(), buffer.data(), std::min(buffer.size(), most - content.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to("read", path, reason(errno));
    if (count == 0) break;
    content.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return content;
}

void write_directly(const fs::path& path, std::string_view content) {
  FileDescriptor file{
      ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)};  // a pipe waits for its reader otherwise
  if (file.get() < 0) fail_to("write", path, errno == ENXIO ? "nobody reads this pipe" : reason(errno));
  ::fcntl(file.get(), F_SETFL, 0);  // only to open it: what is written may wait
  if (const int error = write_all(file.get(), content)) fail_to("write", path, reason(error));
}

/// Returns 0, or errno. `temporary` does not exist yet. It has no name until it is complete, where the file system can
/// do that: whatever ends this process leaves nothing.
int write_new_file(const fs::path& temporary, std::string_view content) {
  FileDescriptor unnamed{::open(temporary.parent_path().empty() ? "." : temporary.parent_path().c_str(),
                                O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666)};
  if (unnamed.get() >= 0) {
    if (const int error = write_all(unnamed.get(), content)) return error;
    if (::fsync(unnamed.get()) != 0) return errno;
    const std::string itself = "/proc/self/fd/" + std::to_string(unnamed.get());
    if (::linkat(AT_FDCWD, itself.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) == 0)
      return unnamed.close() == 0 ? 0 : errno;
  }
  FileDescriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (file.get() < 0) return errno;
  if (const int error = write_all(file.get(), content)) return error;
  if (::fsync(file.get()) != 0) return errno;
  return file.close() == 0 ? 0 : errno;
}

/// A file beside its place; it goes if it does not take it.
class NewFile {
 public:
  NewFile(const fs::path& path, std::string_view content) : path_{path} {
    std::error_code error;
    target_ = fs::weakly_canonical(path, error);  // through symbolic links, so that these stay
    if (error || target_.empty()) target_ = path;
    const fs::file_status status = fs::status(target_, error);
    if (status.type() == fs::file_type::none) fail_to("write", path, error.message());
    if (fs::is_directory(status)) fail_to("write", path, "it is a folder");
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      write_directly(path, content);
      return;
    }
    if (fs::exists(status) && ::access(target_.c_str(), W_OK) != 0) fail_to("write", path, reason(errno));
    static thread_local unsigned count = 0;  // only makes the name of the temporary new
    const fs::path name = target_.parent_path() / ("." + std::to_string(::getpid()) + "-" +
                                                   std::to_string(reinterpret_cast<std::uintptr_t>(&count)) + "-" +
                                                   std::to_string(count++) + ".tmp");
    const int failure = write_new_file(name, content);
    if (failure != EEXIST) temporary_ = name;
    if (failure != 0) {
      remove();
      fail_to("write", path, reason(failure));
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() { remove(); }

  void take_place() {
    if (temporary_.empty()) return;
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to("write", path_, reason(errno));
    temporary_.clear();
  }

 private:
  void remove() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  }

  fs::path path_, target_, temporary_;
};

/// Data being packed; ended whatever happens.
constexpr int kGzipFormat = 15 + 16;  // largest window, gzip header

/// Gives zlib the next part of `input`, which it takes as at most 32 bits of size.
void feed(z_stream& stream, std::string_view& input) {
  if (stream.avail_in > 0 || input.empty()) return;
  const std::size_t size = std::min<std::size_t>(input.size(), std::numeric_limits<uInt>::max());
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  stream.avail_in = static_cast<uInt>(size);
  input.remove_prefix(size);
}

}  // namespace

std::string read_file(const fs::path& path, std::size_t max_size) {
  std::string content = read_up_to(open_regular(path), path, max_size + 1);
  if (content.size() > max_size) fail_to("read", path, "it has more than " + size_text(max_size));
  return content;
}

std::string read_file_start(const fs::path& path, std::size_t size) {
  return read_up_to(open_regular(path), path, size);
}

void require_regular_file(const fs::path& path) { (void)open_regular(path); }

void write_file(const fs::path& path, std::string_view content) {
  NewFile file{path, content};
  file.take_place();
}

void write_files(const std::vector<std::pair<fs::path, std::string>>& files) {
  std::deque<NewFile> written;
  for (const auto& [path, content] : files) written.emplace_back(path, content);
  for (NewFile& file : written) file.take_place();
}

struct Gzip::Stream : z_stream {
  Stream() : z_stream{} {
    constexpr int kMemoryLevel = 8;
    if (deflateInit2(this, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipFormat, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::runtime_error{"zlib cannot start to compress"};
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { deflateEnd(this); }
};

Gzip::Gzip() : stream_{std::make_unique<Stream>()} {}
Gzip::~Gzip() = default;

void Gzip::deflate(std::string_view content, bool is_end) {
  std::array<char, kChunk> buffer;
  for (int state = Z_OK; is_end ? state != Z_STREAM_END : !content.empty() || stream_->avail_in > 0;) {
    feed(*stream_, content);
    stream_->next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_->avail_out = buffer.size();
    state = ::deflate(stream_.get(), is_end && content.empty() ? Z_FINISH : Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END) throw std::runtime_error{"zlib cannot compress"};
    packed_.append(buffer.data(), buffer.size() - stream_->avail_out);
  }
}

std::string Gzip::finish() {
  deflate({}, true);
  return std::move(packed_);
}

std::string gzip(std::string_view content) {
  Gzip packed;
  packed.add(content);
  return packed.finish();
}

std::string_view emptiness(std::string_view content) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf", kWhiteSpace = " \t\r\n\v\f";
  if (content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
  if (content.empty()) return "an empty file";
  return content.find_first_not_of(kWhiteSpace) == std::string_view::npos ? "a file of white space alone" : "";
}

std::string gunzip(std::string_view compressed, std::size_t max_size, std::string_view file_name) {
  const auto fail = [&](const std::string& why) {
    throw InputError{std::string{file_name} + ": cannot decompress: " + why};
  };
  if (compressed.empty()) throw InputError{std::string{file_name} + ": expected gzip data; found an empty file"};
  Inflater inflater{[&compressed](char* bytes, std::size_t size) {
    const std::size_t count = compressed.copy(bytes, size);
    compressed.remove_prefix(count);
    return count;
  }};
  std::string content;
  std::array<char, kChunk> buffer;
  while (const std::size_t count = inflater.read(buffer.data(), buffer.size())) {
    if (content.size() + count > max_size) fail("it gives more than " + size_text(max_size));
    content.append(buffer.data(), count);
  }
  if (inflater.state() == Inflater::State::kCutShort) fail("it is cut short");
  if (inflater.state() != Inflater::State::kComplete) fail("it is damaged or not in gzip format");
  return content;
}

}  // namespace rehearse
