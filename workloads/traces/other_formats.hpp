#pragma once
// Files of profilers and simulators which are not read here. They are told by their content, so that whoever has one
// learns its name and what to record or export instead.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rehearse {

/// A file by its name and its first 64 KiB, unpacked.
struct FileStart {
  std::filesystem::path path;
  std::string_view start;

  bool has(std::string_view text) const { return start.find(text) != std::string_view::npos; }
};

/// A kind of file that is not read.
struct OtherFormat {
  std::string_view name;  // "an SQLite export of Nsight Systems"
  bool (*recognizes)(const FileStart& file);
  std::string_view instead;  // what to record or export
};

/// In the order in which they are tried.
std::span<const OtherFormat> other_formats();

/// The kind of a file, by its content or, of binary ones that have no other mark, its name; null: none of them.
const OtherFormat* find_other_format(const FileStart& file);

/// Throws InputError "FILE: expected a trace ...; found an SQLite export of Nsight Systems, which is not read: ..." of such
/// a file.
void refuse_other_format(const std::filesystem::path& file);

}  // namespace rehearse
