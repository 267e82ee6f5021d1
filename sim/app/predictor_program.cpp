#include "sim/app/predictor_program.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "sim/base/errors.hpp"

namespace rehearse {

void start_program(std::string_view name, std::vector<std::string> arguments) {
  const std::string program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const itimerval none{};
  ::setitimer(ITIMER_REAL, &none, nullptr);  // of the budget: it would ring before the other program has its own
  ::execv(program.c_str(), argv.data());
  const std::string reason =
      errno != ENOENT ? std::strerror(errno)
      : name == kViewProgram
          ? "it was not built: it needs the Debian package libcpp-httplib-dev; ./run.sh view installs "
            "that and builds it"
          : "it was not built: ./run.sh " + (arguments.at(1) == "predict" ? "train" : arguments.at(1)) + " builds it";
  throw InputError{program + ": cannot be started: " + reason};
}

void continue_in(std::string_view program) {
  std::ifstream file{"/proc/self/cmdline"};
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  start_program(program, std::move(arguments));
}

}  // namespace rehearse
