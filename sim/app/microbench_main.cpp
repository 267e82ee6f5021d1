// rehearse-microbench: what needs LibTorch and CUDA's libraries, started by `rehearse microbench`.

#include "sim/app/program.hpp"
#include "sim/app/verb.hpp"

namespace rehearse {

CommandVerb microbench_verb();

namespace {

int run_command_line(int argc, char** argv) {
  return run_verb("rehearse", "Times of kernels on this machine.", {microbench_verb()}, argc, argv);
}

}  // namespace

}  // namespace rehearse

int main(int argc, char** argv) { return rehearse::run_program("rehearse", rehearse::run_command_line, argc, argv); }
