#pragma once
// The program as its user meets it.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::test {

inline const std::string kRoot = source_folder();
inline const std::string kScenario = kRoot + "/scenarios/cm-dare.json";

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

/// Runs `rehearse ARGUMENTS` through the shell; `before` precedes it, such as "timeout 5".
inline Outcome rehearse_with(const std::string& arguments, const std::string& before = "") {
  const TemporaryFolder folder;
  const std::string command = before + " " + build_folder() + "/rehearse " + arguments + " >" +
                              (folder.path / "out").string() + " 2>" + (folder.path / "err").string();
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder.path / "out", kMiB * 16),
          read_file(folder.path / "err", kMiB * 16)};
}

/// Exit code `code`, nothing on stdout, exactly one line on stderr, which contains `text`.
inline void check_refused(const std::string& arguments, int code, const std::string& text) {
  CAPTURE(arguments);
  const Outcome outcome = rehearse_with(arguments);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == code);
  CHECK(outcome.out.empty());
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.starts_with("rehearse: "));
  CHECK(outcome.err.find(text) != std::string::npos);
}

}  // namespace rehearse::test
