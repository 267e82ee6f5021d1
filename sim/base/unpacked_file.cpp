#include "sim/base/unpacked_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "sim/base/detail/inflater.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kBlock = 512;  // of tar
constexpr std::size_t kBuffer = std::size_t{1} << 16U;
constexpr int kMostLayers = 4;  // .tar.gz of a .json.gz has three

/// What else files are packed with, by their first bytes.
std::string_view other_packing(std::string_view start) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOthers{{{"\xfd\x37zXZ", "xz"},
                                                                                  {"\x28\xb5\x2f\xfd", "zstd"},
                                                                                  {"\x04\x22\x4d\x18", "lz4"},
                                                                                  {"7z\xbc\xaf\x27\x1c", "7z"},
                                                                                  {"BZh", "bzip2"}}};
  constexpr std::string_view kBlockOfBzip2 = "1AY&SY";  // behind "BZh" and a digit
  for (const auto& [magic, name] : kOthers)
    if (start.starts_with(magic) && (name != "bzip2" || start.substr(magic.size()).find(kBlockOfBzip2) == 1))
      return name;
  return {};
}

}  // namespace

/// Bytes one after another, of which the first can be looked at before.
class UnpackedFile::Bytes {
 public:
  Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  Bytes(Bytes&&) = delete;
  Bytes& operator=(Bytes&&) = delete;
  virtual ~Bytes() = default;

  std::size_t read(char* bytes, std::size_t size) {
    if (looked_at_ == ahead_.size()) return more(bytes, size);
    const std::size_t count = std::min(size, ahead_.size() - looked_at_);
    std::memcpy(bytes, ahead_.data() + looked_at_, count);
    looked_at_ += count;
    return count;
  }
  /// The first `size` bytes, or all if there are fewer; called before the first read().
  std::string_view look(std::size_t size) {
    while (ahead_.size() < size) {
      const std::size_t before = ahead_.size();
      ahead_.resize(size);
      const std::size_t count = more(ahead_.data() + before, size - before);
      ahead_.resize(before + count);
      if (count == 0) break;
    }
    return ahead_;
  }
  /// As many as there are, up to `size`.
  std::size_t read_all(char* bytes, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
      const std::size_t count = read(bytes + done, size - done);
      if (count == 0) break;
      done += count;
    }
    return done;
  }

 private:
  virtual std::size_t more(char* bytes, std::size_t size) = 0;

  std::string ahead_;
  std::size_t looked_at_ = 0;
};

class UnpackedFile::File : public Bytes {
 public:
  explicit File(const std::filesystem::path& path) : name_{path.string()}, file_{std::fopen(name_.c_str(), "rb")} {
    const int why = errno;
    const bool is_folder = std::filesystem::is_directory(path);
    if (!file_ || is_folder) throw InputError{name_ + ": cannot read: " + std::strerror(is_folder ? EISDIR : why)};
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };
  std::size_t more(char* bytes, std::size_t size) override {
    const std::size_t count = std::fread(bytes, 1, size, file_.get());
    if (count == 0 && std::ferror(file_.get()) != 0) throw InputError{name_ + ": cannot read: " + std::strerror(errno)};
    return count;
  }

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
};

class UnpackedFile::Text : public Bytes {
 public:
  explicit Text(std::string text) : text_{std::move(text)} {}

 private:
  std::size_t more(char* bytes, std::size_t size) override {
    const std::size_t count = std::min(size, text_.size() - at_);
    std::memcpy(bytes, text_.data() + at_, count);
    at_ += count;
    return count;
  }

  std::string text_;
  std::size_t at_ = 0;
};

/// gzip data; zeros and other bytes behind the last part do not matter.
class UnpackedFile::Gunzipped : public Bytes {
 public:
  Gunzipped(std::unique_ptr<Bytes> packed, std::string name)
      : packed_{std::move(packed)}, name_{std::move(name)}, inflater_{[this](char* bytes, std::size_t size) {
          return packed_->read(bytes, size);
        }} {}

 private:
  std::size_t more(char* bytes, std::size_t size) override {
    const std::size_t count = inflater_.read(bytes, size);
    if (inflater_.state() == Inflater::State::kCutShort || inflater_.state() == Inflater::State::kDamaged)
      throw InputError{name_ + ": the gzip data are damaged or cut short"};
    return count;
  }

  std::unique_ptr<Bytes> packed_;
  std::string name_;
  Inflater inflater_;
};

/// The one regular file of a tar archive (POSIX 1003.1, ustar): folders and extended headers are passed over.
class UnpackedFile::Archived : public Bytes {
 public:
  static bool is_archive(std::string_view start) { return start.size() >= kBlock && start.substr(257, 5) == "ustar"; }

  Archived(std::unique_ptr<Bytes> archive, std::string name) : archive_{std::move(archive)}, name_{std::move(name)} {
    const auto entry = next_file();
    if (!entry) throw InputError{name_ + ": expected a file in the tar archive; found none"};
    first_ = entry->name;
    left_ = entry->size;
    padding_ = padding_of(left_);
  }

 private:
  struct Entry {
    std::string name;
    std::uint64_t size = 0;
  };

  std::size_t more(char* bytes, std::size_t size) override {
    if (left_ == 0) {
      if (!is_checked_) check_end();
      return 0;
    }
    const std::size_t count = archive_->read(bytes, static_cast<std::size_t>(std::min<std::uint64_t>(size, left_)));
    if (count == 0 && size > 0) fail_cut();
    left_ -= count;
    return count;
  }
  void check_end() {
    is_checked_ = true;
    skip(padding_);
    if (const auto other = next_file())
      throw InputError{name_ + ": expected one file in the tar archive; found " + in_quotes(first_, 80) + ", " +
                       in_quotes(other->name, 80) + " and maybe more: unpack it and name the files"};
  }
  [[noreturn]] void fail_cut() const { throw InputError{name_ + ": the tar archive is damaged or cut short"}; }

  static std::uint64_t padding_of(std::uint64_t size) { return (kBlock - size % kBlock) % kBlock; }
  /// A number of octal digits, or, since it is longer, of bytes behind one whose first bit is set.
  std::uint64_t size_of(std::string_view field) const {
    std::uint64_t value = 0;
    if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
      for (const char byte : field.substr(field.size() - 8)) value = value << 8U | static_cast<unsigned char>(byte);
    } else {
      for (const char digit : field)
        if (digit >= '0' && digit <= '7') value = value * 8 + static_cast<std::uint64_t>(digit - '0');
    }
    if (value > std::uint64_t{1} << 50U) fail_cut();
    return value;
  }
  void skip(std::uint64_t size) {
    std::array<char, kBuffer> buffer{};
    while (size > 0) {
      const std::size_t count =
          archive_->read(buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(size, buffer.size())));
      if (count == 0) fail_cut();
      size -= count;
    }
  }
  /// The next regular file, whose content is read next; none at the end. macOS adds one called "._NAME" of attributes.
  std::optional<Entry> next_file() {
    while (true) {
      std::array<char, kBlock> block{};
      const std::size_t count = archive_->read_all(block.data(), block.size());
      const std::string_view header{block.data(), block.size()};
      if (count == 0 || header.find_first_not_of('\0') == std::string_view::npos) return {};
      if (count < block.size() || !is_archive(header)) fail_cut();
      Entry entry{.name = std::string{header.substr(0, std::min(header.find('\0'), std::size_t{100}))},
                  .size = size_of(header.substr(124, 12))};
      const char kind = header[156];
      const std::string base = entry.name.substr(entry.name.find_last_of('/') + 1);
      if ((kind == '0' || kind == '\0') && !base.starts_with("._")) return entry;
      skip(entry.size + padding_of(entry.size));
    }
  }

  std::unique_ptr<Bytes> archive_;
  std::string name_, first_;
  std::uint64_t left_ = 0, padding_ = 0;
  bool is_checked_ = false;
};

UnpackedFile::UnpackedFile(const std::filesystem::path& file, const Budget& budget)
    : budget_{budget}, name_{file.string()}, bytes_{std::make_unique<File>(file)} {
  unpack();
}

UnpackedFile::UnpackedFile(std::string text, std::string file_name)
    : name_{std::move(file_name)}, bytes_{std::make_unique<Text>(std::move(text))} {
  unpack();
}

UnpackedFile::UnpackedFile(UnpackedFile&&) noexcept = default;
UnpackedFile::~UnpackedFile() = default;

void UnpackedFile::unpack() {
  for (int layer = 0; layer < kMostLayers; ++layer) {
    const std::string_view start = bytes_->look(kBlock);
    if (const std::string_view packing = other_packing(start); !packing.empty())
      throw InputError{name_ + ": is packed with " + std::string{packing} + ": unpack it first, or use gzip"};
    if (start.starts_with("\x1f\x8b"))
      bytes_ = std::make_unique<Gunzipped>(std::move(bytes_), name_);
    else if (Archived::is_archive(start))
      bytes_ = std::make_unique<Archived>(std::move(bytes_), name_);
    else
      return;
  }
}

std::size_t UnpackedFile::read(char* bytes, std::size_t size) {
  budget_.check();
  return bytes_->read(bytes, size);
}

namespace {

std::string read_all(UnpackedFile file, std::size_t max_size) {
  std::string content;
  std::array<char, kBuffer> buffer{};
  while (const std::size_t count = file.read(buffer.data(), buffer.size())) {
    if (content.size() + count > max_size)
      throw InputError{file.name() + ": cannot read: it has more than " + std::to_string(max_size / kMiB) + "MiB"};
    content.append(buffer.data(), count);
  }
  return content;
}

}  // namespace

std::string read_unpacked_file(const std::filesystem::path& file, std::size_t max_size) {
  require_regular_file(file);
  return read_all(UnpackedFile{file}, max_size);
}

std::string read_unpacked_start(const std::filesystem::path& file, std::size_t size) {
  require_regular_file(file);
  UnpackedFile unpacked{file};
  std::string start(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const std::size_t count = unpacked.read(start.data() + done, size - done);
    if (count == 0) break;
    done += count;
  }
  start.resize(done);
  return start;
}

std::string unpacked_text(std::string_view text, std::size_t max_size, const std::string& file_name) {
  return read_all(UnpackedFile{std::string{text}, file_name}, max_size);
}

}  // namespace rehearse
