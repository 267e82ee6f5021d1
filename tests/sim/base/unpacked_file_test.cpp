#include "sim/base/unpacked_file.hpp"

#include <doctest/doctest.h>

#include <cstdio>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// A member of a tar archive: its header of 512 bytes, its content, padded.
std::string member(const std::string& name, const std::string& content, char kind = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char size[12];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  header.replace(124, 11, size, 11);
  header[156] = kind;
  header.replace(257, 5, "ustar");
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

const std::string kEnd(1024, '\0');

std::string unpacked(const std::string& text) { return unpacked_text(text, kMiB, "x"); }
std::string refusal_of_unpacking(const std::string& text) {
  return test::error_of([&] { (void)unpacked(text); });
}

}  // namespace

TEST_CASE("a file is the same plain, packed, and in an archive of its own") {
  const std::string content(3000, 'c');
  const std::string archive = member("./", "", '5') + member("x/._trace.json", "attributes") +
                              member("pax", "27 mtime=1", 'x') + member("x/trace.json", content) + kEnd;
  for (const std::string& text : {content, gzip(content), archive, gzip(archive), gzip(gzip(content)),
                                  gzip(member("trace.json.gz", gzip(content)) + kEnd)})
    CHECK(unpacked(text) == content);
  const test::TemporaryFolder folder;
  CHECK(read_unpacked_file(folder.write("x.tar.gz", gzip(archive)), kMiB) == content);
  CHECK(read_unpacked_start(folder / "x.tar.gz", 10) == content.substr(0, 10));
  CHECK(unpacked("") == "");
}

TEST_CASE("parts of gzip data follow each other, and what is behind them does not matter") {
  CHECK(unpacked(gzip("one ") + gzip("two")) == "one two");
  CHECK(unpacked(gzip("one") + std::string(1000, '\0')) == "one");
  CHECK(unpacked(gzip("one") + "\x1f") == "one");
}

TEST_CASE("an archive of several files, of none, a damaged one and other packings are refused by name") {
  CHECK(refusal_of_unpacking(member("a.json", "a") + member("b.json", "b") + kEnd) ==
        "x: expected one file in the tar archive; found \"a.json\", \"b.json\" and maybe more: unpack it and name the "
        "files");
  CHECK(refusal_of_unpacking(member("a/", "", '5') + kEnd) == "x: expected a file in the tar archive; found none");
  CHECK(refusal_of_unpacking(member("a.json", std::string(2000, 'a')).substr(0, 1500)) ==
        "x: the tar archive is damaged or cut short");
  CHECK(refusal_of_unpacking(gzip(std::string(100'000, 'a')).substr(0, 60)) ==
        "x: the gzip data are damaged or cut short");
  CHECK(refusal_of_unpacking("\x28\xb5\x2f\xfd packed") == "x: is packed with zstd: unpack it first, or use gzip");
  CHECK(refusal_of_unpacking("\xfd"
                             "7zXZ packed") == "x: is packed with xz: unpack it first, or use gzip");
  CHECK(refusal_of_unpacking("BZh91AY&SY packed") == "x: is packed with bzip2: unpack it first, or use gzip");
  for (const char* text : {"BZh", "BZh9", "BZh91AY", "BZ: a text"}) CHECK(unpacked(text) == text);  // not packed
  CHECK(refusal_of_unpacking(gzip(std::string(kMiB + 1, '\0'))) == "x: cannot read: it has more than 1MiB");
  std::string layers = "x";
  for (int i = 0; i < 6; ++i) layers = gzip(layers);
  CHECK(unpacked(layers).starts_with("\x1f\x8b"));
}

}  // namespace rehearse
