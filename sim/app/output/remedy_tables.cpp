#include "sim/app/output/remedy_tables.hpp"

#include <algorithm>
#include <array>

#include "sim/base/named.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr std::array kNotes{
    Named{" (another training: as many samples may not lead to the same loss)", RemedyKind::kOtherTraining},
    Named{" (at best: their work may slow the workers' hosts, which is not simulated)", RemedyKind::kShared},
    Named{" (a machine that no catalog has)", RemedyKind::kHypothetical}};

std::string gain_text(const Remedy& remedy) { return signed_percent_text(*remedy.simulated_gain); }

std::string cost_text(const Remedy& remedy) {
  return remedy.cost_change ? signed_percent_text(*remedy.cost_change) : "";
}

}  // namespace

std::string note_of(RemedyKind kind) { return name_in(kNotes, kind); }

Table best_remedies(const std::vector<Remedy>& remedies, std::size_t most) {
  Table table{.header = {"remedy", "samples/s", "USD a sample"}, .rows = {}};
  const auto add = [&](const Remedy& remedy, const std::string& note, const std::string& cost) {
    if (remedy.result && table.rows.size() < most)
      table.rows.push_back({remedy.change + note, gain_text(remedy), cost});
  };
  for (const Remedy& remedy : remedies)
    if (remedy.kind != RemedyKind::kHypothetical)
      add(remedy, remedy.kind == RemedyKind::kOtherTraining ? " (another training)" : "", cost_text(remedy));
  for (const Remedy& remedy : remedies)
    if (remedy.kind == RemedyKind::kHypothetical) add(remedy, " (if there were such)", "");
  return table;
}

Section remedies_section(const std::vector<Remedy>& remedies) {
  Section section{.title = "Remedies",
                  .paragraphs = {"Each is simulated, by itself; --set takes what stands behind it."},
                  .tables = {}};
  Table table{.header = {"remedy", "steps/s", "gain", "USD for a million samples", "change", "settings"}, .rows = {}};
  for (const Remedy& remedy : remedies) {
    if (!remedy.result) {
      section.paragraphs.push_back("Cannot be simulated: " + remedy.change + ": " + remedy.error);
      continue;
    }
    const auto usd = remedy.result->usd_per_million_samples();
    table.rows.push_back({remedy.change + note_of(remedy.kind), display(remedy.result->steps_per_s), gain_text(remedy),
                          usd ? display(*usd) : "", cost_text(remedy), joined(remedy.settings)});
    if (remedy.gain_interval)
      section.paragraphs.push_back(remedy.change + ": " + remedy.note + "; " +
                                   signed_percent_text(remedy.gain_interval->first) + " to " +
                                   signed_percent_text(remedy.gain_interval->second) + " (90 %)");
  }
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace rehearse
