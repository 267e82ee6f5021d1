// rehearse view: results in a browser, and new ones from there.

#include <malloc.h>

#include <random>

#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/app/view_server.hpp"
#include "sim/plan/sweep_request.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/view/router.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

struct ViewCommand {
  CommonOptions common;
  fs::path folder;
  int port = 8265;
};

void add_options(Options options, ViewCommand& command) {
  options.add_option("DIR", command.folder, "Folder of results, of which everything below is shown").required();
  options.add_count("--port", command.port, 0, 65535, "Where it answers; 0: a port that is free").shows_default();
  options
      .add_count("-j,--jobs", command.common.parallel, 1, 64,
                 "Runs that were started from the pages at a time, the others wait")
      .shows_default();
  add_catalogs(options, command.common);
  add_quiet(options, command.common, "Print only the address");
  add_wall_time(options, command.common);
}

/// 128 bits that nobody can guess.
std::string random_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 32; ++i) token += "0123456789abcdef"[random() % 16];
  return token;
}

Answer run(const ViewCommand& command) {
  ::mallopt(M_ARENA_MAX, 2);  // otherwise the memory of what has been answered stays with each of the many threads
  (void)load_catalog(command.common);  // a mistake of --catalog ends here
  const fs::path shipped = fs::canonical(shipped_files());
  ViewSetup setup{.folder = command.folder,
                  .program = own_file().parent_path() / "rehearse",
                  .pages = shipped / "sim/app/pages",
                  .readable = {shipped},
                  .scenario_schema = scenario_schema(),
                  .sweep_schema = sweep_schema(),
                  .token = random_token(),
                  .parallel = command.common.parallel};
  for (const fs::path& catalog : command.common.catalogs) {
    setup.catalogs.push_back(fs::canonical(catalog));
    setup.readable.push_back(setup.catalogs.back());
  }
  Router router{std::move(setup)};
  serve(
      router, command.port,
      [&](int port) {
        (void)print({.parts = {"http://127.0.0.1:" + std::to_string(port) + "\n"}});
        if (!command.common.is_quiet) say("Ctrl-C ends it");
      },
      command.common.budget.asked());
  command.common.budget.stop();
}

}  // namespace

CommandVerb view_verb() {
  return make_verb<ViewCommand>(
      "view",
      "Results in a browser: a list of all runs, two compared, a form that changes a scenario and runs it\n\n"
      "It answers to this machine alone. Runs that are started there are those of simulate, sweep and diff.\n"
      "Example: rehearse view results\n"
      "         rehearse view results --port 0 -j 2",
      add_options, run);
}

}  // namespace rehearse
