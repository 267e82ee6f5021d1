#include "predictor/detail/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse::detail {
namespace {

constexpr std::uint32_t kRecord = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50;
constexpr std::size_t kRecordSize = 30, kEntrySize = 46, kEndSize = 22, kLongestComment = 65535;
constexpr std::size_t kAlignment = 64, kLargestArchive = 0xffffffffU;
constexpr std::uint16_t kVersion = 20, kUtf8 = 1U << 11U;
constexpr std::uint16_t kDay = (0U << 9U) | (1U << 5U) | 1U;  // 1 January 1980

void put(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

std::uint32_t checksum(std::string_view content) {
  uLong sum = crc32(0, nullptr, 0);
  for (std::size_t begin = 0; begin < content.size(); begin += 1U << 30U) {
    const std::string_view part = content.substr(begin, 1U << 30U);
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
  }
  return static_cast<std::uint32_t>(sum);
}

/// Numbers at places of the archive, each checked to lie inside.
struct Archive {
  std::string_view bytes;
  const std::string& file_name;

  [[noreturn]] void fail(const std::string& message) const { throw InputError{file_name + ": " + message}; }
  std::string_view part(std::size_t begin, std::size_t size) const {
    if (begin > bytes.size() || size > bytes.size() - begin) fail("the zip archive is cut short or damaged");
    return bytes.substr(begin, size);
  }
  std::size_t number(std::size_t begin, std::size_t size) const {
    std::size_t value = 0;
    const std::string_view digits = part(begin, size);
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::size_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    return value;
  }
};

/// The end record is searched from behind: a comment may follow it.
std::size_t find_end(const Archive& archive) {
  const std::size_t size = archive.bytes.size();
  for (std::size_t back = kEndSize; back <= size && back <= kEndSize + kLongestComment; ++back)
    if (archive.number(size - back, 4) == kEnd) return size - back;
  archive.fail("the zip archive is cut short or damaged");
}

}  // namespace

std::map<std::string, std::string_view> read_stored_zip(std::string_view bytes, const std::string& file_name) {
  const Archive archive{bytes, file_name};
  const std::size_t end = find_end(archive);
  const std::size_t entries = archive.number(end + 10, 2);
  std::size_t entry = archive.number(end + 16, 4);
  if (entries == 0xffff || entry == kLargestArchive)
    archive.fail("zip archives of 4 GiB or 65535 records are not read");
  struct Record {
    std::string name;
    std::size_t begin, end;  // with what stands before its content
    std::size_t size, sum;
  };
  const std::size_t directory = entry;
  std::vector<Record> found;
  for (std::size_t i = 0; i < entries; ++i) {
    if (archive.number(entry, 4) != kEntry) archive.fail("the zip archive is cut short or damaged");
    const std::size_t method = archive.number(entry + 10, 2), sum = archive.number(entry + 16, 4);
    const std::size_t stored = archive.number(entry + 20, 4), size = archive.number(entry + 24, 4);
    const std::size_t name_size = archive.number(entry + 28, 2), extra_size = archive.number(entry + 30, 2);
    const std::size_t comment_size = archive.number(entry + 32, 2), record = archive.number(entry + 42, 4);
    std::string name{archive.part(entry + kEntrySize, name_size)};
    entry += kEntrySize + name_size + extra_size + comment_size;
    if (method != 0 || stored != size)
      archive.fail("the record " + in_quotes(name) + " is compressed, which torch.save does not do");
    if (archive.number(record, 4) != kRecord) archive.fail("the zip archive is cut short or damaged");
    const std::size_t begin = record + kRecordSize + archive.number(record + 26, 2) + archive.number(record + 28, 2);
    (void)archive.part(begin, size);
    found.push_back({std::move(name), record, begin + size, size, sum});
  }
  // Each byte belongs to one record at most: without that a small file could hold any number of large ones.
  std::ranges::sort(found, {}, [](const Record& record) { return std::pair{record.begin, record.end}; });
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i].end > (i + 1 < found.size() ? found[i + 1].begin : directory))
      archive.fail("the record " + in_quotes(found[i].name) + " overlaps " +
                   (i + 1 < found.size() ? "the record " + in_quotes(found[i + 1].name) : "the archive's directory"));
  std::map<std::string, std::string_view> records;
  for (const Record& record : found) {
    const std::string_view content = archive.part(record.end - record.size, record.size);
    if (checksum(content) != record.sum)
      archive.fail("the record " + in_quotes(record.name) + " is damaged: its checksum is wrong");
    if (!records.emplace(record.name, content).second)
      archive.fail("the record " + in_quotes(record.name) + " is there twice");
  }
  return records;
}

std::string write_stored_zip(const std::vector<std::pair<std::string, std::string_view>>& records) {
  std::size_t total = kEndSize;
  for (const auto& [name, content] : records)
    total += kRecordSize + kEntrySize + 2 * name.size() + content.size() + kAlignment + 4;
  if (total > kLargestArchive || records.size() >= 0xffff)
    throw InputError{"a torch file cannot hold 4 GiB or 65535 tensors: write several"};
  std::string archive, directory;
  archive.reserve(total);
  for (const auto& [name, content] : records) {
    const std::size_t begin = archive.size();
    const std::uint32_t sum = checksum(content);
    const auto describe = [sum, name_size = name.size(), size = content.size()](std::string& to,
                                                                                std::size_t extra_size) {
      put(to, kVersion, 2);
      put(to, kUtf8, 2);
      put(to, 0, 2);  // stored
      put(to, 0, 2);  // midnight
      put(to, kDay, 2);
      put(to, sum, 4);
      put(to, size, 4);
      put(to, size, 4);
      put(to, name_size, 2);
      put(to, extra_size, 2);
    };
    const std::size_t unpadded = begin + kRecordSize + name.size() + 4;
    const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
    put(archive, kRecord, 4);
    describe(archive, 4 + padding);
    archive += name;
    archive += "FB";  // the extra field that LibTorch pads with
    put(archive, padding, 2);
    archive.append(padding, 'Z');
    archive += content;

    put(directory, kEntry, 4);
    put(directory, kVersion, 2);
    describe(directory, 0);
    put(directory, 0, 2);  // comment
    put(directory, 0, 2);  // disk
    put(directory, 0, 2);  // internal attributes
    put(directory, 0, 4);  // external attributes
    put(directory, begin, 4);
    directory += name;
  }
  const std::size_t directory_begin = archive.size();
  archive += directory;
  put(archive, kEnd, 4);
  put(archive, 0, 4);  // disks
  put(archive, records.size(), 2);
  put(archive, records.size(), 2);
  put(archive, directory.size(), 4);
  put(archive, directory_begin, 4);
  put(archive, 0, 2);  // comment
  return archive;
}

}  // namespace rehearse::detail
