#include "sim/pool/job_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/pool/detail/whole_number.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostBytes = 4096 * kMiB;  // of a file of results or a task
constexpr std::size_t kLongestHead = 200;        // of a result

void make_folder_at(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw InputError{path.string() + ": cannot be made: " + error.message()};
}

JobOwner read_owner(const fs::path& path) {
  const fs::path file = path / "about.json";
  if (!fs::exists(file)) throw InputError{path.string() + ": is no folder of jobs: it has no about.json"};
  const Json json = load_json_file(file);
  const JsonReader reader{json, file.string()};
  reader.expect(reader.is_object(), "an object");
  reader.expect_format();
  JobOwner owner{.program = reader.required<std::string>("program"),
                 .arguments = reader.required<std::vector<std::string>>("arguments"),
                 .directory = reader.required<std::string>("directory")};
  reader.reject_unknown_keys();
  return owner;
}

std::string check_of(const RunKey& key, const PooledRun& run) {
  return run_key(run.text, key.text() + (run.has_succeeded ? "+" : "-") + (run.has_died ? "!" : ".")).text();
}

/// "RESULT key succeeded died wall_s size check\n", the text and a new line.
std::string to_record(const RunKey& key, const PooledRun& run) {
  std::array<char, kLongestHead> head{};
  std::snprintf(head.data(), head.size(), "RESULT %s %d %d %.6f %zu %s\n", key.text().c_str(),
                run.has_succeeded ? 1 : 0, run.has_died ? 1 : 0, run.wall_s, run.text.size(),
                check_of(key, run).c_str());
  return head.data() + run.text + "\n";
}

struct Record {
  RunKey key;
  PooledRun run;
  std::size_t size = 0;  // in the file
};

enum class Found { kWhole, kCut, kDamaged };

/// The result that `text` begins with.
Found read_record(std::string_view text, Record& record) {
  const std::size_t end = text.substr(0, kLongestHead).find('\n');
  if (end == std::string_view::npos) return text.size() < kLongestHead ? Found::kCut : Found::kDamaged;
  const std::string head{text.substr(0, end)};
  int succeeded = 0, died = 0;
  std::size_t size = 0;
  std::array<char, 33> check{};
  if (std::sscanf(head.c_str(), "RESULT %16" SCNx64 "%16" SCNx64 " %d %d %lf %zu %32s", &record.key.high,
                  &record.key.low, &succeeded, &died, &record.run.wall_s, &size, check.data()) != 7 ||
      size > kMostBytes)
    return Found::kDamaged;
  if (text.size() - end - 1 < size + 1) return Found::kCut;
  record.run.has_succeeded = succeeded != 0;
  record.run.has_died = died != 0;
  record.run.text = std::string{text.substr(end + 1, size)};
  record.size = end + 1 + size + 1;
  const bool is_whole = text[record.size - 1] == '\n' && check_of(record.key, record.run) == check.data();
  return is_whole ? Found::kWhole : Found::kDamaged;
}

std::string read_from(const fs::path& path, std::uint64_t start) {
  std::ifstream file{path, std::ios::binary};
  file.seekg(static_cast<std::streamoff>(start));
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::string task_name(int number) {
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "%06d", number);
  return name.data();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

}  // namespace

JobFolder::JobFolder(fs::path path, const JobOwner& owner) : path_{std::move(path)}, owner_{owner} {
  make_folder_at(path_ / "tasks");
  make_folder_at(path_ / "results");
  make_folder_at(path_ / "logs");
  if (!fs::exists(path_ / "about.json")) {
    write_file(
        path_ / "about.json",
        Json{{"format", 1}, {"program", owner.program}, {"arguments", owner.arguments}, {"directory", owner.directory}}
                .dump(2, ' ', false, Json::error_handler_t::replace) +
            "\n");
    return;
  }
  const JobOwner there = read_owner(path_);
  if (there.program != owner.program)
    throw InputError{path_.string() + ": holds jobs of another build of this program; remove the folder to begin anew"};
  if (there.arguments != owner.arguments || there.directory != owner.directory)
    throw InputError{path_.string() + ": holds jobs of another command; remove the folder to begin anew"};
}

JobFolder::JobFolder(fs::path path) : path_{std::move(path)}, owner_{read_owner(path_)} {}

std::vector<int> JobFolder::tasks() const {
  std::vector<int> numbers;
  for (const auto& entry : fs::directory_iterator{path_ / "tasks"}) {
    const std::optional<int> number = whole_number(entry.path().filename().string());
    if (number.value_or(0) > 0) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

std::vector<std::string> JobFolder::task(int number) const {
  const std::string content = read_file(path_ / "tasks" / task_name(number), kMostBytes);
  std::vector<std::string> texts;
  for (std::size_t start = 0; start < content.size();) {
    const std::size_t end = std::min(content.find('\0', start), content.size());
    texts.push_back(content.substr(start, end - start));
    start = end + 1;
  }
  return texts;
}

void JobFolder::add_task(int number, const std::vector<std::string>& texts) const {
  std::string content;
  for (const std::string& text : texts) content += text + '\0';
  write_file(path_ / "tasks" / task_name(number), content);
}

void ResultReader::read_new(const std::function<void(const RunKey&, PooledRun)>& on_result) {
  for (const auto& entry : fs::directory_iterator{folder_}) {
    if (damaged_.contains(entry.path())) continue;
    std::uint64_t& done = read_[entry.path()];
    std::error_code error;
    if (const std::uint64_t size = fs::file_size(entry.path(), error); error || size <= done) continue;
    const std::string text = read_from(entry.path(), done);
    Record record;
    Found found = Found::kWhole;
    for (std::size_t start = 0; start < text.size(); start += record.size, done += record.size) {
      found = read_record(std::string_view{text}.substr(start), record);
      if (found != Found::kWhole) break;
      on_result(record.key, std::move(record.run));
    }
    if (found == Found::kDamaged) damaged_.insert(entry.path());
  }
}

ResultWriter::ResultWriter(const JobFolder& folder, const std::string& name) {
  const std::string own = name + "." + host_name() + "-" + std::to_string(::getpid());
  for (int i = 1; file_ < 0 && (i == 1 || errno == EEXIST); ++i) {  // process ids come again
    path_ = folder.path() / "results" / (own + "-" + std::to_string(i));
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file_ < 0) throw InputError{path_.string() + ": cannot be written: " + std::strerror(errno)};
}

ResultWriter::~ResultWriter() { ::close(file_); }

void ResultWriter::append(const RunKey& key, const PooledRun& run) {
  const std::string record = to_record(key, run);
  for (std::size_t written = 0; written < record.size();) {
    const ssize_t count = ::write(file_, record.data() + written, record.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw InputError{path_.string() + ": cannot be written: " + std::strerror(errno)};
    written += static_cast<std::size_t>(count);
  }
}

bool run_task(const JobFolder& folder, int number, int parallel, const JobLimits& limits) {
  std::set<RunKey> done;
  ResultReader{folder}.read_new([&](const RunKey& key, const PooledRun& run) {
    if (!run.has_died) done.insert(key);
  });
  std::vector<std::string> texts;
  for (std::string& text : folder.task(number))
    if (!done.contains(folder.key(text))) texts.push_back(std::move(text));
  if (texts.empty()) return true;
  ResultWriter results{folder, task_name(number)};
  return run_in_processes(
      texts.size(), parallel, [&](std::size_t index) { return texts[index]; },
      [&](std::size_t index, const PooledRun& run) { results.append(folder.key(texts[index]), run); }, limits);
}

}  // namespace rehearse
