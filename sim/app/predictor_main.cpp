// rehearse-predictor: the verbs that need LibTorch. `rehearse train` and so on start it, so that no other verb loads
// it.

#include "sim/app/program.hpp"
#include "sim/app/verb.hpp"

/// The verbs in the order of --help, as in main.cpp, which names them too; `import` has a verb of its own there, which
/// starts this one for datasets.
#define REHEARSE_VERBS(verb) verb(train) verb(import) verb(compare) verb(predict)

namespace rehearse {

#define REHEARSE_DECLARE(name) CommandVerb name##_verb();
REHEARSE_VERBS(REHEARSE_DECLARE)

namespace {

int run_command_line(int argc, char** argv) {
#define REHEARSE_MAKE(name) name##_verb(),
  return run_verb("rehearse", "Graph neural networks that predict the resource profiles of training jobs.",
                  {REHEARSE_VERBS(REHEARSE_MAKE)}, argc, argv);
}

}  // namespace

}  // namespace rehearse

int main(int argc, char** argv) { return rehearse::run_program("rehearse", rehearse::run_command_line, argc, argv); }
