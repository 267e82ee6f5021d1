#pragma once
// What is in a file, piece by piece, however it is packed.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sim/base/budget.hpp"

namespace rehearse {

/// The bytes of a file: plain, gzip, or of the one file in a tar archive, packed or not (".tar.gz", ".tgz"). Throws
/// InputError if it cannot be read, is damaged, is packed in another way (xz, zstd, bzip2, lz4, 7z), or if an archive has
/// no file or several.
class UnpackedFile {
 public:
  explicit UnpackedFile(const std::filesystem::path& file, const Budget& budget = {});
  /// The same of a text; errors name `file_name`.
  UnpackedFile(std::string text, std::string file_name);
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;
  UnpackedFile(UnpackedFile&&) noexcept;
  UnpackedFile& operator=(UnpackedFile&&) = delete;
  ~UnpackedFile();

  /// The next bytes, at most `size`; 0 at the end.
  std::size_t read(char* bytes, std::size_t size);
  const std::string& name() const { return name_; }

 private:
  class Bytes;
  class File;
  class Text;
  class Gunzipped;
  class Archived;
  void unpack();

  Budget budget_;
  std::string name_;
  std::unique_ptr<Bytes> bytes_;
};

/// All of them; InputError beyond `max_size`.
std::string read_unpacked_file(const std::filesystem::path& file, std::size_t max_size);
/// The first bytes, fewer than `size` if there are no more.
std::string read_unpacked_start(const std::filesystem::path& file, std::size_t size);
/// All bytes of a text that may be packed.
std::string unpacked_text(std::string_view text, std::size_t max_size, const std::string& file_name);

}  // namespace rehearse
