#pragma once
// What rehearse init writes: commented files of each kind, to start one's own from.

#include <span>
#include <string>
#include <vector>

namespace rehearse {

struct StarterFile {
  std::string path;  // relative to where the user is
  std::string text;  // its first line says how it is used: "// Run it:  rehearse ..."
};

/// "scenario", "model", ...
std::span<const char* const> starter_kinds();

/// The file of that kind, NAME.json (of a catalog NAME/machines.json, a folder being what --catalog takes), and the files that
/// it names, whose names begin with NAME, too. `name` may have folders before it. Throws InputError for a kind that is not known.
std::vector<StarterFile> starter_files(const std::string& kind, const std::string& name);

}  // namespace rehearse
