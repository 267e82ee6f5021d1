#include "sim/base/files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

using test::TemporaryFolder;

using test::error_of;

std::string random_bytes(std::size_t size) {
  Rng rng{1, "bytes"};
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.bits());
  return bytes;
}

}  // namespace

TEST_CASE("what is written is read, with the permissions of an ordinary new file, and nothing else is left") {
  const TemporaryFolder folder;
  const std::string content = random_bytes(300'000);
  write_file(folder / "a", "old");
  write_file(folder / "a", content);
  CHECK(read_file(folder / "a", content.size()) == content);
  CHECK(folder.entry_count() == 1);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat status {};
  REQUIRE(::stat((folder / "a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == (0666U & ~mask));
}

TEST_CASE("pipes, devices and sockets are refused as input, at once") {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe", socket = folder / "socket";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // nobody writes it: without the check these lines never end
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int listening = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const auto refusal = [](const fs::path& path, const char* kind) {
    const std::string expected = path.string() + ": cannot read: expected a regular file; found a " + kind;
    CHECK(error_of([&] { read_file(path, 10); }) == expected);
    CHECK(error_of([&] { read_file_start(path, 10); }) == expected);
    CHECK(error_of([&] { require_regular_file(path); }) == expected);
  };
  refusal(pipe, "pipe");
  refusal(socket, "socket or device");
  refusal("/dev/zero", "device");
  ::close(listening);
}

TEST_CASE("the start of a file is what there is of it") {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a", "0123456789");
  CHECK(read_file_start(file, 4) == "0123");
  CHECK(read_file_start(file, 40) == "0123456789");
  CHECK(read_file_start(folder.write("b", ""), 4).empty());
}

TEST_CASE("errors name the path and the reason") {
  const TemporaryFolder folder;
  const fs::path missing = folder / "none", inside_missing = folder / "none/a";
  CHECK(error_of([&] { read_file(missing, 10); }) == missing.string() + ": cannot read: No such file or directory");
  CHECK(error_of([&] { read_file(folder / "", 10); }).ends_with(": cannot read: Is a directory"));
  CHECK(error_of([&] { write_file(inside_missing, "x"); }) ==
        inside_missing.string() + ": cannot write: No such file or directory");
  CHECK(error_of([&] { write_file(folder / "", "x"); }).ends_with(": cannot write: it is a folder"));
  write_file(folder / "a", "0123456789x");
  CHECK(error_of([&] { read_file(folder / "a", 10); }) ==
        (folder / "a").string() + ": cannot read: it has more than 10B");
  const fs::path large = folder.write("large", std::string(kMiB + 1, 'x'));
  CHECK(error_of([&] { read_file(large, kMiB); }) == large.string() + ": cannot read: it has more than 1MiB");
}

TEST_CASE("a failed write keeps the old file and leaves no temporary one") {
  CHECK(error_of([] { write_file("/dev/full", "x"); }) == "/dev/full: cannot write: No space left on device");
  const TemporaryFolder folder;
  fs::create_directory(folder / "target");
  CHECK_THROWS_AS(write_file(folder / "target", "x"), InputError);
  CHECK_THROWS_AS(write_file(folder / std::string(300, 'n').c_str() / "a", "x"), InputError);
  CHECK(folder.entry_count() == 1);
}

TEST_CASE("of several files none is written if one cannot be") {
  const TemporaryFolder folder;
  const fs::path too_long = folder / std::string(300, 'n').c_str();
  CHECK(error_of([&] {
          write_files({{folder / "first", "1"}, {too_long, "2"}});
        }) == too_long.string() + ": cannot write: File name too long");
  CHECK(folder.entry_count() == 0);
}

TEST_CASE("a pipe is written to if somebody reads it, and refused otherwise") {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(error_of([&] { write_file(pipe, "new"); }) == pipe.string() + ": cannot write: nobody reads this pipe");
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file(pipe, "new");
  char buffer[8];
  CHECK(::read(reader, buffer, sizeof buffer) == 3);
  ::close(reader);
}

TEST_CASE("a symbolic link stays, and what it leads to is written") {
  const TemporaryFolder folder;
  write_file(folder / "real", "old");
  fs::create_symlink("real", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "real", 10) == "new");
}

TEST_CASE("gunzip undoes gzip, whatever the content") {
  for (const std::string& content :
       {std::string{}, std::string{"x"}, std::string(5'000'000, 'a'), random_bytes(200'000)}) {
    CHECK(gunzip(gzip(content), content.size(), "x.gz") == content);
  }
}

TEST_CASE("gzip gives the same bytes every time: its time stamp is zero") {
  const std::string packed = gzip("content");
  CHECK(packed == gzip("content"));
  CHECK(packed.substr(0, 8) == std::string{"\x1f\x8b\x08\x00\x00\x00\x00\x00", 8});
}

TEST_CASE("what is packed bit by bit is what is packed at once, whatever the bits") {
  for (const std::size_t size : {0UL, 1UL, 70'000UL, 3'000'000UL}) {
    const std::string content = random_bytes(size / 2) + std::string(size - size / 2, 'x');
    Gzip packed;
    Rng rng{2, "parts"};
    for (std::string_view left = content; !left.empty();) {
      const std::size_t part = std::min<std::size_t>(left.size(), rng.bits() % 100'000);
      packed.add(left.substr(0, part));
      left.remove_prefix(part);
    }
    CHECK(packed.finish() == gzip(content));
  }
}

TEST_CASE("gzip files that are joined unpack to their contents, joined") {
  CHECK(gunzip(gzip("one ") + gzip("two"), 100, "x.gz") == "one two");
}

TEST_CASE("damaged, short and exploding gzip files are refused") {
  const std::string packed = gzip(random_bytes(100'000));
  std::string damaged = packed;
  damaged[50'000] = static_cast<char>(damaged[50'000] ^ 1);
  CHECK(error_of([&] { gunzip(damaged, kMiB, "x.gz"); }) ==
        "x.gz: cannot decompress: it is damaged or not in gzip format");
  CHECK(error_of([&] { gunzip("plain text", kMiB, "x.gz"); }) ==
        "x.gz: cannot decompress: it is damaged or not in gzip format");
  CHECK(error_of([&] { gunzip(packed.substr(0, 60'000), kMiB, "x.gz"); }) ==
        "x.gz: cannot decompress: it is cut short");
  CHECK(error_of([&] { gunzip(packed + std::string(100, '\0'), kMiB, "x.gz"); }) ==
        "x.gz: cannot decompress: it is damaged or not in gzip format");
  CHECK(error_of([&] { gunzip(packed + packed.substr(0, 100), kMiB, "x.gz"); }) ==
        "x.gz: cannot decompress: it is cut short");
  CHECK(error_of([&] { gunzip("", kMiB, "x.gz"); }) == "x.gz: expected gzip data; found an empty file");
  const std::string bomb = gzip(std::string(64 * kMiB, '\0'));
  CHECK(error_of([&] { gunzip(bomb, kMiB, "x.gz"); }) == "x.gz: cannot decompress: it gives more than 1MiB");
}

}  // namespace rehearse
