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
#include "sim/base/shell.hpp"
#include "sim/pool/detail/whole_number.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

namespace {

constexpr int kDefaultMaxArraySize = 1001;     // slurm.conf(5)
constexpr const char* kLongestCommand = "60";  // s; sbatch tries a controller that is busy again for longer
constexpr int kNotFound = 127;                 // exit code of a command that is not there
constexpr int kTimedOut = 124;                 // timeout(1)

struct Answer {
  int code = -1;     // exit code
  std::string text;  // stdout and stderr

  bool is_good() const { return code == 0; }
};

Answer ask(const std::vector<std::string>& command) {
  std::string line = std::string{"timeout --kill-after=5 "} + kLongestCommand + " ";
  for (const std::string& word : command) line += shell_word(word) + " ";
  std::fflush(nullptr);
  std::FILE* pipe = ::popen((line + "2>&1 < /dev/null").c_str(), "re");
  if (!pipe) return {};
  Answer answer;
  std::array<char, 65536> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    answer.text.append(buffer.data(), size);
  const bool is_whole = std::ferror(pipe) == 0;
  const int status = ::pclose(pipe);
  if (is_whole && WIFEXITED(status)) answer.code = WEXITSTATUS(status);
  return answer;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// What the command said was wrong.
std::string error_of(const Answer& answer, const std::string& command) {
  if (answer.code == kTimedOut) return command + " did not end within " + kLongestCommand + " s";
  const std::vector<std::string> lines = lines_of(answer.text);
  return lines.empty() ? command + " says nothing" : shortened(lines.back(), 400);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream{line};
  for (std::string field; std::getline(stream, field, '|');) fields.push_back(field);
  return fields;
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
  const std::vector<std::string> fields = fields_of(line);
  if (fields.size() < 3 || !fields[1].starts_with(name + "+")) return {};
  const std::size_t underscore = fields[0].find('_');
  if (underscore == std::string::npos) return {};
  const std::optional<int> index = whole_number(std::string_view{fields[0]}.substr(underscore + 1));
  const std::optional<int> offset = whole_number(std::string_view{fields[1]}.substr(name.size() + 1));
  if (!index || !offset) return {};
  QueuedTask task{
      .number = *offset + *index, .job = fields[0].substr(0, underscore), .id = fields[0], .state = lower(fields[2])};
  if (task.state == "pending" && fields.size() > 3 && fields[3] != "None") {
    const std::string reason = lower(fields[3]);  // "launch failed requeued held", "job requeued in held state"
    task.is_stuck = reason.find("requeued") != std::string::npos && reason.find("held") != std::string::npos;
    task.state += " (" + fields[3] + ")";
  }
  return task;
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

QueueAnswer SlurmQueue::tasks() const {
  const Answer answer = ask({"squeue", "--noheader", "--array", "--me", "--format=%i|%j|%T|%r"});
  if (answer.code == kNotFound)
    throw InputError{"--executor slurm: squeue is not there: is this a machine from which jobs are submitted?"};
  if (!answer.is_good()) return {.is_known = false, .tasks = {}, .error = error_of(answer, "squeue")};
  QueueAnswer queue{.is_known = true, .tasks = {}, .error = ""};
  for (const std::string& line : lines_of(answer.text))
    if (const auto task = read_queue_line(line, name_)) queue.tasks.push_back(*task);
  return queue;
}

void SlurmQueue::cancel(const std::vector<std::string>& ids) const {
  std::vector<std::string> command{"scancel"};
  command.insert(command.end(), ids.begin(), ids.end());
  ask(command);
}

Submission SlurmQueue::submit(const SubmittedTasks& what) const {
  const int most = max_array_size() - 1;  // indices from 1 on
  std::map<int, std::vector<int>> by_offset;
  for (const int number : what.numbers) by_offset[(number - 1) / most * most].push_back((number - 1) % most + 1);
  Submission done;
  for (const auto& [offset, indices] : by_offset) {
    std::string script = "#!/bin/sh\nexec " + shell_word(what.program) + " jobs " + shell_word(folder_.string()) +
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
    if (!answer.is_good()) {
      done.error = error_of(answer, "sbatch");
      break;
    }
    for (const int index : indices) done.numbers.push_back(offset + index);
    if (const auto lines = lines_of(answer.text); !lines.empty())  // "12" or "12;cluster", below what it may warn of
      done.jobs.push_back(lines.back().substr(0, lines.back().find(';')));
  }
  return done;
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

std::string read_nodes(const std::string& text) {
  std::map<std::string, std::string> wrong;  // by node, which has a line for each of its partitions
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() < 2) continue;
    const std::string state = lower(fields[1].substr(0, fields[1].find_first_of("*~#!%$@+^-")));
    if (!state.starts_with("d") && !state.starts_with("fail")) continue;  // down, drained, draining
    const bool has_reason = fields.size() > 2 && fields[2] != "none" && fields[2] != "Reason";
    wrong.emplace(fields[0], state + (has_reason ? ": " + shortened(fields[2], 200) : ""));
  }
  if (wrong.empty()) return "";
  const auto& [node, state] = *wrong.begin();
  if (wrong.size() == 1) return "node " + node + " is " + state;
  return std::to_string(wrong.size()) + " nodes are out of service, such as " + node + ", which is " + state;
}

std::string nodes_out_of_service() {
  const Answer answer = ask({"sinfo", "--noheader", "--Node", "--states=down,drain,fail", "--format=%N|%T|%E"});
  return answer.is_good() ? read_nodes(answer.text) : "";
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
