// rehearse-view: the verb that needs an HTTP library. `rehearse view` starts it, so that no other verb loads that.

#include "sim/app/program.hpp"
#include "sim/app/verb.hpp"

namespace rehearse {

CommandVerb view_verb();

namespace {

int run_command_line(int argc, char** argv) {
  return run_verb("rehearse", "Results in a browser.", {view_verb()}, argc, argv);
}

}  // namespace

}  // namespace rehearse

int main(int argc, char** argv) { return rehearse::run_program("rehearse", rehearse::run_command_line, argc, argv); }
