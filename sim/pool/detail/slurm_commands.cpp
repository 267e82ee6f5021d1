#include "sim/pool/detail/slurm_commands.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "sim/pool/detail/whole_number.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

namespace {

constexpr int kDefaultMaxArraySize = 1001;  // slurm.conf(5)

struct Answer {
  bool is_good = false;
  std::string text;  // stdout, then stderr
};

/// For a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return out + "'";
}

Answer ask(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += quoted(word) + " ";
  std::fflush(nullptr);
  std::FILE* pipe = ::popen((line + "2>&1 < /dev/null").c_str(), "re");
  if (!pipe) return {};
  Answer answer;
  std::array<char, 65536> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    answer.text.append(buffer.data(), size);
  const int status = ::pclose(pipe);
  answer.is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return answer;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

int max_array_size() {
  for (const std::string& line : lines_of(ask({"scontrol", "show", "config"}).text))
    if (const std::size_t equals = line.find('='); line.starts_with("MaxArraySize") && equals != std::string::npos)
      return std::max(2, whole_number(std::string_view{line}.substr(line.find_first_not_of(' ', equals + 1)))
                             .value_or(kDefaultMaxArraySize));
  return kDefaultMaxArraySize;
}

/// Where a task says something: one file for all of its attempts.
std::filesystem::path log_of(const std::filesystem::path& folder, int offset, const std::string& index) {
  return folder / "logs" / ("tasks-" + std::to_string(offset) + "+" + index + ".txt");
}

}  // namespace

SlurmQueue::SlurmQueue(std::filesystem::path folder)
    : folder_{std::move(folder)},
      name_{"rehearse-" + run_key(std::filesystem::absolute(folder_).string(), "").text().substr(0, 16)} {}

std::optional<QueuedTask> read_queue_line(const std::string& line, const std::string& name) {
  std::vector<std::string> fields;
  std::istringstream stream{line};
  for (std::string field; std::getline(stream, field, '|');) fields.push_back(field);
  if (fields.size() < 3 || !fields[1].starts_with(name + "+")) return {};
  const std::size_t underscore = fields[0].find('_');
  if (underscore == std::string::npos) return {};
  const std::optional<int> index = whole_number(std::string_view{fields[0]}.substr(underscore + 1));
  const std::optional<int> offset = whole_number(std::string_view{fields[1]}.substr(name.size() + 1));
  if (!index || !offset) return {};
  std::string state = fields[2];
  std::ranges::transform(state, state.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (state == "pending" && fields.size() > 3 && fields[3] != "None") state += " (" + fields[3] + ")";
  return QueuedTask{*offset + *index, fields[0].substr(0, underscore), state};
}

std::string array_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::vector<QueuedTask>> SlurmQueue::tasks() const {
  const Answer answer = ask({"squeue", "--noheader", "--array", "--me", "--format=%i|%j|%T|%r"});
  if (!answer.is_good) return {};
  std::vector<QueuedTask> tasks;
  for (const std::string& line : lines_of(answer.text))
    if (const auto task = read_queue_line(line, name_)) tasks.push_back(*task);
  return tasks;
}

std::string SlurmQueue::submit(const SubmittedTasks& what) const {
  const int most = max_array_size() - 1;  // indices from 1 on
  std::map<int, std::vector<int>> by_offset;
  for (const int number : what.numbers) by_offset[(number - 1) / most * most].push_back((number - 1) % most + 1);
  for (const auto& [offset, indices] : by_offset) {
    std::string script = "#!/bin/sh\nexec " + quoted(what.program) + " jobs " + quoted(folder_.string()) +
                         " --task $((SLURM_ARRAY_TASK_ID + " + std::to_string(offset) + ")) -j " +
                         std::to_string(what.parallel);
    if (what.job_wall_s) script += " --max-run-time " + std::to_string(*what.job_wall_s) + "s";
    const std::filesystem::path file = folder_ / ("tasks-" + std::to_string(offset) + ".sh");
    write_file(file, script + "\n");
    std::vector<std::string> command{"sbatch",
                                     "--parsable",
                                     "--requeue",
                                     "--open-mode=append",
                                     "--job-name=" + name_ + "+" + std::to_string(offset),
                                     "--array=" + array_text(indices),
                                     "--cpus-per-task=" + std::to_string(what.parallel),
                                     "--output=" + log_of(folder_, offset, "%a").string()};
    command.insert(command.end(), what.options.begin(), what.options.end());
    command.push_back(file.string());
    const Answer answer = ask(command);
    if (answer.is_good) continue;
    const std::vector<std::string> lines = lines_of(answer.text);
    return lines.empty() ? "sbatch says nothing" : shortened(lines.back(), 400);
  }
  return "";
}

std::string SlurmQueue::last_words(int number) const {
  for (const auto& entry : std::filesystem::directory_iterator{folder_ / "logs"}) {
    const std::string name = entry.path().stem().string();
    const std::size_t plus = name.find('+');
    if (!name.starts_with("tasks-") || plus == std::string::npos) continue;
    const auto offset = whole_number(std::string_view{name}.substr(6, plus - 6));
    const auto index = whole_number(std::string_view{name}.substr(plus + 1));
    if (!offset || !index || *offset + *index != number) continue;
    const std::vector<std::string> lines = lines_of(read_file(entry.path(), 64 * kMiB));
    if (!lines.empty()) return ": " + shortened(lines.back(), 400);
  }
  return "";
}

int processors_of_cluster() {
  int most = 1;
  for (const std::string& line : lines_of(ask({"sinfo", "--noheader", "--format=%C"}).text)) {
    const std::size_t slash = line.rfind('/');  // allocated/idle/other/total
    if (slash == std::string::npos) continue;
    const std::string total = line.substr(slash + 1);
    most = std::max(most, whole_number(total.substr(0, total.find_last_not_of(' ') + 1)).value_or(1));
  }
  return most;
}

}  // namespace rehearse
