// rehearse merge: the result of a command whose shards have run.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/errors.hpp"
#include "sim/pool/job_folder.hpp"

namespace rehearse {

namespace {

struct MergeCommand {
  CommonOptions common;
  std::filesystem::path folder;
};

void add_options(Options options, MergeCommand& command) {
  options.add_option("FOLDER", command.folder, "Folder of jobs, OUTPUT.jobs").required();
  add_json(options, command.common, "Print the result of the command as its own --json does");
  add_quiet(options, command.common);
}

/// Starts this program anew as the command that the folder belongs to.
Answer run(const MergeCommand& command) {
  const JobFolder folder{command.folder};
  const JobOwner& owner = folder.owner();
  if (owner.program != program_identity())
    throw InputError{command.folder.string() + ": holds jobs of another build of this program"};
  if (::chdir(owner.directory.c_str()) != 0)
    throw InputError{owner.directory + ", where the shards ran: " + std::strerror(errno)};
  std::vector<std::string> words{"rehearse"};
  words.insert(words.end(), owner.arguments.begin(), owner.arguments.end());
  words.insert(words.end(), {"--executor", "merged"});
  if (command.common.prints_json && std::ranges::find(words, "--json") == words.end()) words.emplace_back("--json");
  if (command.common.is_quiet) words.emplace_back("--quiet");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  throw InputError{std::string{"cannot start the command: "} + std::strerror(errno)};
}

}  // namespace

CommandVerb merge_verb() {
  return make_verb<MergeCommand>("merge",
                                 "Put the shards of a command together: the same result as without --shard\n\n"
                                 "Example: rehearse sweep scenario.json --seeds 100 -o results --shard 1/2\n"
                                 "         rehearse sweep scenario.json --seeds 100 -o results --shard 2/2\n"
                                 "         rehearse merge results.jobs",
                                 add_options, run);
}

}  // namespace rehearse
