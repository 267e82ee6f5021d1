// rehearse generate: random workloads on the clusters of a space, simulated, as a dataset for training.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "predictor/generate.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/output/dataset_document.hpp"
#include "sim/app/progress.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/files.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

void print(const Generated& generated, bool has_labels) {
  const Redrawn& redrawn = generated.redrawn;
  std::printf("%zu samples of %lld graphs in %zu settings; half of the graphs have %s operators or more\n",
              generated.samples.size(), static_cast<long long>(generated.graphs), generated.settings.size(),
              display(generated.median_operators).c_str());
  std::printf(
      "drawn again: %lld duplicates, %lld too large for a GPU, %lld with another number of operators, %lld that "
      "cannot be built\n",
      static_cast<long long>(redrawn.duplicates), static_cast<long long>(redrawn.exceeding_memory),
      static_cast<long long>(redrawn.other_sizes), static_cast<long long>(redrawn.unbuildable));
  if (generated.without_result > 0)
    std::printf("%lld samples without result, the last one: %s\n", static_cast<long long>(generated.without_result),
                generated.last_failure.c_str());
  if (has_labels) std::fputs(to_text(label_table(generated)).c_str(), stdout);
}

}  // namespace

int run(const GenerateCommand& command) {
  const Space space = load_space(command.space);
  const Catalog catalog = load_catalog(command.common);
  Progress progress{command.is_dry_run ? "samples drawn" : "samples", command.common.is_quiet};
  const GenerateRequest request{
      .seed = command.seed,
      .count = command.count,
      .parallel = command.common.parallel,
      .output = command.common.output.value_or(fs::path{}),
      .program = program_identity(),
      .is_stopped = is_interrupted,
      .on_progress = [&](std::int64_t done, std::int64_t total) { progress.update(done, total); }};
  catch_interrupts();
  if (command.is_dry_run) {
    const Generated planned = plan_dataset(space, catalog, request);
    if (!planned.is_complete) throw Interrupted{};
    if (command.common.prints_json)
      std::fputs(to_json_text(to_json(space, request, planned)).c_str(), stdout);
    else
      std::printf("%lld samples: ", static_cast<long long>(command.count)), print(planned, false);
    return kSuccess;
  }
  const Generated generated = generate_dataset(space, catalog, request);
  if (!generated.is_complete) {
    std::fprintf(stderr, "rehearse: interrupted: what is finished is kept in %s.part; the same command goes on there\n",
                 request.output.c_str());
    throw Interrupted{};
  }
  if (generated.kept > 0 && !command.common.is_quiet)
    std::fprintf(stderr, "%lld of %lld samples had finished before\n", static_cast<long long>(generated.kept),
                 static_cast<long long>(command.count));
  write_file(request.output.string() + ".report.html", render_html(dataset_document(space, request, generated)));
  if (command.common.prints_json)
    std::fputs(to_json_text(to_json(space, request, generated)).c_str(), stdout);
  else
    print(generated, true);
  return generated.samples.empty() ? kNoResult : kSuccess;
}

}  // namespace rehearse
