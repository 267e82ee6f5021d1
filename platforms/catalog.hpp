#pragma once
// What is known about machines, models and calibrated software, by name. Start here to read platforms/.
//
// A catalog folder holds   *.json            catalog files: "accelerators", "instances", "interconnects",
//                                            "region_links", "spot_pools", "storage", "messaging",
//                                            "prediction_errors"
//                          prices/*.json     price histories (platforms/price.hpp)
//                          models/**.json    model files, named by their path: models/mine/net.json is "mine/net"
//                          profiles/*.json   calibration profiles

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platforms/accelerator.hpp"
#include "platforms/instance.hpp"
#include "platforms/messaging.hpp"
#include "platforms/price.hpp"
#include "platforms/region_link.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

struct Profile;

/// The word that stands for choose_profile() (profile_choice.hpp) in the place of a profile's name.
inline constexpr const char* kAutomaticProfile = "auto";

/// The "name" of an object that a scenario contains inline; "inline" if it has none.
std::string name_of_inline(const JsonReader& json);

/// Where one set of catalog files lies.
struct CatalogFolders {
  std::filesystem::path platforms;
  std::filesystem::path models;
  std::filesystem::path profiles;
  /// Each file is parsed when something of it is asked for, and what is wrong with it said then: for files that tests read, as those
  /// of the program.
  bool is_parsed_as_asked = false;
};

class Catalog {
 public:
  /// Later folders override earlier ones, name by name. Throws InputError for a folder that is not there or a malformed
  /// file; of those parsed as asked then.
  explicit Catalog(std::vector<CatalogFolders> folders);
  ~Catalog();
  Catalog(Catalog&&) noexcept;
  Catalog& operator=(Catalog&&) noexcept;

  /// Raw entries. Throws InputError, with the nearest known name, for an unknown one; `asked_by` says where the name
  /// was read.
  JsonReader accelerator(const std::string& name, const JsonReader& asked_by) const;
  JsonReader instance(const std::string& name, const JsonReader& asked_by) const;
  JsonReader interconnect(const std::string& name, const JsonReader& asked_by) const;
  JsonReader spot_pool(const std::string& name, const JsonReader& asked_by) const;
  JsonReader model(const std::string& name, const JsonReader& asked_by) const;
  JsonReader profile(const std::string& name, const JsonReader& asked_by) const;
  /// The profile of that name as read_profile() reads it, once for all who ask; null if its file is wrong, which profile()
  /// and read_profile() say.
  const Profile* readable_profile(const std::string& name) const;
  /// The GPU of that name, read once for all who ask; null if the catalogs have none. Throws InputError for a wrong entry.
  const Accelerator* known_accelerator(const std::string& name) const;
  StoragePrice storage(const std::string& name, const JsonReader& asked_by) const;
  Messaging messaging(const std::string& name, const JsonReader& asked_by) const;
  /// Reads the file, which may be large. Throws InputError for an unknown name or a malformed file.
  PriceHistory price_history(const std::string& name, const JsonReader& asked_by) const;
  /// The link between two regions, or inside one; nullptr if the catalogs have none.
  const RegionLink* region_link(const std::string& from, const std::string& to) const;

  /// How far predictions of each kind have been off: platforms/prediction_kind.hpp. Null if no catalog says.
  Json prediction_errors() const;

  /// From now on there is no profile of these names.
  void withhold_profiles(const std::set<std::string>& names);

  std::vector<std::string> accelerator_names() const;
  std::vector<std::string> instance_names() const;
  std::vector<std::string> interconnect_names() const;
  std::vector<std::string> price_history_names() const;
  std::vector<std::string> spot_pool_names() const;
  std::vector<std::string> messaging_names() const;
  std::vector<std::string> region_names() const;
  std::vector<std::string> model_names() const;
  std::vector<std::string> profile_names() const;

 private:
  struct Entry {
    std::shared_ptr<const Json> file;  // the whole file, which the reader refers to
    const Json* value;
    std::string file_name;
    std::string pointer;
  };
  using Entries = std::map<std::string, Entry>;

  /// A file of platforms, which may have entries of several kinds.
  struct PlatformFile {
    std::filesystem::path path;
    std::string text;                  // until it is parsed
    std::shared_ptr<const Json> json;  // from then on

    const Json& parsed();
    /// False only of what certainly has no entry of that kind.
    bool may_have(std::string_view kind) const;
  };
  using Links = std::map<std::pair<std::string, std::string>, RegionLink>;

  /// Whether there is anything.
  bool read_platforms(const CatalogFolders& folders);
  /// Of a kind such as "instances", of all files.
  const Entries& entries(const char* kind) const;
  const Links& links() const;
  JsonReader find(std::string_view kind, const Entries& entries, const std::string& name,
                  const JsonReader& asked_by) const;
  JsonReader find_file(std::string_view kind, std::filesystem::path CatalogFolders::*folder, const std::string& name,
                       const JsonReader& asked_by) const;
  std::vector<std::string> file_names(std::filesystem::path CatalogFolders::*folder) const;

  std::vector<CatalogFolders> folders_;
  std::set<std::string> withheld_profiles_;
  std::map<std::string, std::filesystem::path> price_histories_;
  mutable std::vector<PlatformFile> platform_files_;
  mutable std::map<std::string, Entries, std::less<>> entries_;                      // of kinds asked for so far
  mutable std::optional<Links> links_;                                               // likewise
  mutable std::map<std::filesystem::path, std::shared_ptr<const Json>> files_;       // models and profiles read so far
  mutable std::map<std::string, std::shared_ptr<const Profile>> readable_profiles_;  // asked for so far
  mutable std::map<std::string, std::shared_ptr<const Accelerator>> known_accelerators_;  // likewise
};

}  // namespace rehearse
