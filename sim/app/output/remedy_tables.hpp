#pragma once
// Simulated remedies on a page.

#include <string>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/plan/remedies.hpp"

namespace rehearse {

/// What is to be known of a remedy of a kind, in brackets and after a space; nothing of machines that can be rented.
std::string note_of(RemedyKind kind);

/// For the first screen, at most `most` rows: remedies with result by their gain, those that no setting makes come last.
Table best_remedies(const std::vector<Remedy>& remedies, std::size_t most);

/// All of them, with their settings, and why some give no result.
Section remedies_section(const std::vector<Remedy>& remedies);

}  // namespace rehearse
