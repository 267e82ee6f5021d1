#pragma once
// Zip archives of stored (uncompressed) records below 4 GiB, as torch.save writes them. Libraries for zip do not let us
// place the records, which LibTorch expects on multiples of 64 bytes.
// Source: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", 6.3.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearse::detail {

/// Records by name; they refer to `bytes`. InputError, "file_name: ...", for a damaged archive, a compressed record, or
/// records that overlap one another or the directory. The time is proportional to the archive's size.
std::map<std::string, std::string_view> read_stored_zip(std::string_view bytes, const std::string& file_name);

/// InputError if the archive would not stay below 4 GiB.
std::string write_stored_zip(const std::vector<std::pair<std::string, std::string_view>>& records);

}  // namespace rehearse::detail
