#include "platforms/catalog.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "platforms/interconnect.hpp"
#include "platforms/profile.hpp"
#include "platforms/schemas.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr Bytes kMostSize{std::int64_t{1} << 50};  // of a memory or burst: sums of several are below 2^63

/// "400W" as 400 where `unit` is "W".
double read_number_of(const JsonReader& json, const char* key, std::string_view unit, const char* expected) {
  const auto text = json.required<std::string>(key);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  json.expect(error == std::errc{} && std::string_view{end} == unit && number > 0 && number <= 1e6, key, expected);
  return number;
}

/// Refuses rates that are not dense ones at boost clock.
void check_rates(const Accelerator& accelerator, const JsonReader& json) {
  const auto is_near = [](double a, double b, double share) { return std::abs(a - b) <= share * b; };
  if (json.has("boost_clock")) {
    const FlopsPerSecond peak{2.0 * accelerator.multiprocessors * accelerator.cores_per_multiprocessor *
                              accelerator.boost_clock_hz};
    json.expect(accelerator.cores_per_multiprocessor > 0, "boost_clock", "\"cores_per_multiprocessor\" beside it");
    json.expect(is_near(accelerator.peak_fp32.value(), peak.value(), 0.03), "peak_fp32",
                "2 * multiprocessors * cores_per_multiprocessor * boost_clock = " + to_text(peak) + " within 3 %");
  }
  if (json.has("peak_bf16_sparse")) {
    const auto sparse = json.required<FlopsPerSecond>("peak_bf16_sparse");
    json.expect(is_near(accelerator.peak_bf16.value(), sparse.value() / 2, 0.02), "peak_bf16",
                "the dense rate, half of \"peak_bf16_sparse\"");
  }
}

/// What only platforms/kernels needs.
void read_details(Accelerator& accelerator, const JsonReader& json) {
  accelerator.architecture = json.optional<std::string>("architecture", "");
  accelerator.cores_per_multiprocessor = json.optional<int>("cores_per_multiprocessor", 0);
  if (json.has("cores_per_multiprocessor"))
    json.expect(accelerator.cores_per_multiprocessor >= 1 && accelerator.cores_per_multiprocessor <= 4096,
                "cores_per_multiprocessor", "1 to 4096");
  accelerator.l2 = json.optional<Bytes>("l2", Bytes{});
  accelerator.process_nm = json.optional<int>("process_nm", 0);
  if (json.has("process_nm"))
    json.expect(accelerator.process_nm >= 1 && accelerator.process_nm <= 1000, "process_nm", "1 to 1000");
  accelerator.dies = json.optional<int>("dies", 1);
  json.expect(accelerator.dies >= 1 && accelerator.dies <= 64, "dies", "1 to 64");
  if (json.has("power")) accelerator.power_w = read_watts(json, "power");
  if (json.has("power_min")) {
    accelerator.power_min_w = read_watts(json, "power_min");
    json.expect(accelerator.power_min_w <= accelerator.power_w, "power_min", "at most \"power\"");
  }
  accelerator.memory_kind = json.optional<std::string>("memory_kind", "");
  if (json.has("memory_kind"))
    json.expect(accelerator.memory_kind.starts_with("HBM") || accelerator.memory_kind.starts_with("GDDR"),
                "memory_kind", "HBM or GDDR with its generation, such as \"HBM2e\"");
  accelerator.has_ecc = json.optional<bool>("ecc", false);
  if (json.has("boost_clock"))
    accelerator.boost_clock_hz =
        1e6 * read_number_of(json, "boost_clock", "MHz", "a clock in megahertz, such as \"1410MHz\"");
  for (const auto& [key, peak] :
       {std::pair{"peak_tf32", &Accelerator::peak_tf32}, std::pair{"peak_bf16", &Accelerator::peak_bf16},
        std::pair{"peak_fp8", &Accelerator::peak_fp8}, std::pair{"peak_fp4", &Accelerator::peak_fp4},
        std::pair{"peak_fp32_matrix", &Accelerator::peak_fp32_matrix}})
    if (json.has(key)) {
      accelerator.*peak = json.required<FlopsPerSecond>(key);
      json.expect(accelerator.*peak > FlopsPerSecond{0}, key, "a speed above 0flops");
    }
  check_rates(accelerator, json);
}

}  // namespace

double read_watts(const JsonReader& json, const char* key) {
  return read_number_of(json, key, "W", "a power in watts, such as \"400W\"");
}

Accelerator read_accelerator(std::string name, JsonReader json) {
  json.use_schema(accelerator_schema);
  Accelerator accelerator{
      .name = std::move(name),
      .peak_fp32 = json.required<FlopsPerSecond>("peak_fp32"),
      .peak_fp16 = json.required<FlopsPerSecond>("peak_fp16"),
      .memory_bandwidth = json.required<BytesPerSecond>("memory_bandwidth"),
      .memory = json.required<Bytes>("memory"),
      .memory_reserved = json.required<Bytes>("memory_reserved"),
      .multiprocessors = json.required<int>("multiprocessors"),
      .host_link = json.required<BytesPerSecond>("host_link"),
      .source = json.required<std::string>("source"),
  };
  json.expect(accelerator.peak_fp32 > FlopsPerSecond{0}, "peak_fp32", "a speed above 0flops");
  json.expect(accelerator.peak_fp16 > FlopsPerSecond{0}, "peak_fp16", "a speed above 0flops");
  json.expect(accelerator.memory_bandwidth > BytesPerSecond{0}, "memory_bandwidth", "a rate above 0Bps");
  json.expect(accelerator.memory > Bytes{0}, "memory", "a size above 0B");
  json.expect(accelerator.memory <= kMostSize, "memory", "at most 1PiB");
  json.expect(accelerator.memory_reserved <= kMostSize, "memory_reserved", "at most 1PiB");
  json.expect(accelerator.host_link > BytesPerSecond{0}, "host_link", "a rate above 0Bps");
  json.expect(accelerator.multiprocessors >= 1 && accelerator.multiprocessors <= 4096, "multiprocessors", "1 to 4096");
  read_details(accelerator, json);
  json.reject_unknown_keys();
  return accelerator;
}

double Accelerator::clock() const {
  constexpr double kUsual = 1.5e9;
  if (boost_clock_hz > 0) return boost_clock_hz;
  return cores_per_multiprocessor > 0 ? peak_fp32.value() / (2.0 * multiprocessors * cores_per_multiprocessor) : kUsual;
}

namespace {

RegionalPrice read_regional_price(const JsonReader& json) {
  RegionalPrice price{.regions = json.required<std::vector<std::string>>("regions"),
                      .usd_per_hour = json.required<double>("usd_per_hour"),
                      .date = json.required<std::string>("date"),
                      .source = json.required<std::string>("source")};
  const auto market = json.required<std::string>("market");
  json.expect(market == "on-demand" || market == "spot", "market", "\"on-demand\" or \"spot\"");
  price.is_spot = market == "spot";
  json.expect(!price.regions.empty(), "regions", "at least one region");
  json.expect(price.usd_per_hour >= 0, "usd_per_hour", "a price of at least 0");
  json.reject_unknown_keys();
  return price;
}

}  // namespace

std::optional<double> Instance::usd_per_hour(bool is_spot, const std::string& place) const {
  for (const RegionalPrice& price : prices)
    if (price.is_spot == is_spot && std::any_of(price.regions.begin(), price.regions.end(),
                                                [&](const std::string& region) { return lies_in(place, region); }))
      return price.usd_per_hour;
  return is_spot ? usd_per_hour_spot : usd_per_hour_on_demand;
}

namespace {

NetworkTransport read_transport(const JsonReader& json) {
  const auto word = json.required<std::string>("transport");
  for (const auto& known : kNetworkTransports)
    if (known.name == word) return known.value;
  json.fail("transport", unknown_name_message("transport", word, names_in(kNetworkTransports)));
}

/// A GPU drives as many NICs as all have, such as four of the 32 adapters of eight GPUs; those that are left over carry nothing.
void take_nics_of_a_gpu_as_one(Instance& instance) {
  if (instance.accelerators == 0 || instance.nics <= instance.accelerators) return;
  const int of_each = instance.nics / instance.accelerators;
  instance.nic = instance.nic * of_each;
  instance.nic_burst = instance.nic_burst * of_each;
  instance.nics = instance.accelerators;
}

}  // namespace

Instance read_instance(std::string name, JsonReader json) {
  json.use_schema(instance_schema);
  Instance instance{
      .name = std::move(name),
      .vcpus = json.required<int>("vcpus"),
      .memory = json.required<Bytes>("memory"),
      .accelerator = {},
      .accelerators = json.optional<int>("accelerators", 0),
      .nic = json.required<BytesPerSecond>("nic"),
      .nics = json.optional<int>("nics", 1),
      .nic_burst = json.optional<Bytes>("nic_burst", Bytes{}),
      .transport = {},
      .usd_per_hour_on_demand = json.maybe<double>("usd_per_hour_on_demand"),
      .usd_per_hour_spot = json.maybe<double>("usd_per_hour_spot"),
      .prices = {},
      .provider = {},
      .billing = {},
      .source = json.required<std::string>("source"),
  };
  if (json.has("transport")) instance.transport = read_transport(json);
  instance.is_in_order = json.optional<bool>("in_order", true);
  instance.plugin_latency = json.optional<Seconds>("plugin_latency", Seconds{});
  json.expect(instance.plugin_latency <= Seconds{1}, "plugin_latency", "at most 1s");
  if (json.has("accelerator")) {
    const JsonReader accelerator = json.child("accelerator");
    instance.accelerator = accelerator.is_string() ? accelerator.as<std::string>() : name_of_inline(accelerator);
    if (!json.has("accelerators")) instance.accelerators = 1;
  }
  json.expect(instance.vcpus >= 1 && instance.vcpus <= 4096, "vcpus", "1 to 4096");
  json.expect(instance.memory > Bytes{0}, "memory", "a size above 0B");
  json.expect(instance.nic > BytesPerSecond{0}, "nic", "a rate above 0Bps");
  if (json.has("nics")) json.expect(instance.nics >= 1 && instance.nics <= 64, "nics", "1 to 64");
  json.expect(instance.nic_burst <= kMostSize, "nic_burst", "at most 1PiB");
  if (json.has("interconnect")) (void)json.child("interconnect");  // resolved where the accelerator is known
  if (json.has("accelerators"))
    json.expect(instance.accelerator.empty() ? instance.accelerators == 0
                                             : instance.accelerators >= 1 && instance.accelerators <= kMostNvlinkGpus,
                "accelerators", "1 to 576 with an \"accelerator\", none without");
  take_nics_of_a_gpu_as_one(instance);
  for (const char* key : {"usd_per_hour_on_demand", "usd_per_hour_spot"})
    if (json.has(key)) json.expect(json.required<double>(key) >= 0, key, "a price of at least 0");
  if (json.has("prices"))
    for (const JsonReader& price : json.children("prices")) instance.prices.push_back(read_regional_price(price));
  if (json.has("provider")) {
    const JsonReader provider = json.child("provider");
    provider.expect(provider.is_string() || provider.is_object(), "a name or an object");
    if (!provider.is_string()) instance.billing = read_billing_rule(provider);
    instance.provider = instance.billing ? instance.billing->name : provider.as<std::string>();
  }
  json.reject_unknown_keys();
  return instance;
}

double read_packet_loss(const JsonReader& json) {
  const double loss = json.optional<double>("packet_loss", 0);
  if (json.has("packet_loss")) json.expect(loss >= 0 && loss <= 0.5, "packet_loss", "a share from 0 to 0.5");
  return loss;
}

RegionLink read_region_link(JsonReader json) {
  json.use_schema(region_link_schema);
  RegionLink link{
      .from = json.required<std::string>("from"),
      .to = json.required<std::string>("to"),
      .latency = json.required<Seconds>("latency"),
      .per_flow_rate = json.maybe<BytesPerSecond>("per_flow_rate"),
      .source = json.required<std::string>("source"),
      .place = json.place(),
      .packet_loss = read_packet_loss(json),
  };
  if (link.per_flow_rate) json.expect(*link.per_flow_rate > BytesPerSecond{0}, "per_flow_rate", "a rate above 0Bps");
  json.expect(link.latency <= Seconds{60}, "latency", "at most 60s");
  json.reject_unknown_keys();
  return link;
}

std::string name_of_inline(const JsonReader& json) { return json.optional<std::string>("name", "inline"); }

Catalog::Catalog(std::vector<CatalogFolders> folders) : folders_{std::move(folders)} {
  for (const CatalogFolders& folder : folders_) {
    const bool has_files = read_platforms(folder);
    if (!has_files && !fs::is_directory(folder.models) && !fs::is_directory(folder.profiles))
      throw InputError{folder.platforms.string() +
                       ": expected a catalog folder, with JSON files or a folder models, profiles or prices; found " +
                       (fs::is_empty(folder.platforms) ? "an empty folder" : "none of them")};
  }
  if (!std::ranges::all_of(folders_, &CatalogFolders::is_parsed_as_asked))
    (void)links();  // which throws for wrong ones
}
Catalog::~Catalog() = default;
Catalog::Catalog(Catalog&&) noexcept = default;
Catalog& Catalog::operator=(Catalog&&) noexcept = default;

namespace {

constexpr std::array kKinds{"accelerators", "instances", "interconnects",    "spot_pools",
                            "storage",      "messaging", "prediction_errors"};
constexpr const char* kLinks = "region_links";

}  // namespace

const Json& Catalog::PlatformFile::parsed() {
  if (json != nullptr) return *json;
  json = std::make_shared<const Json>(parse_json(text, path.string()));
  text.clear();
  text.shrink_to_fit();
  const JsonReader reader{*json, path.string()};
  reader.expect_format();
  for (const char* kind : kKinds)
    if (reader.has(kind)) (void)reader.child(kind);
  if (reader.has(kLinks)) (void)reader.children(kLinks);
  reader.reject_unknown_keys();
  return *json;
}

bool Catalog::PlatformFile::may_have(std::string_view kind) const {
  if (json != nullptr) return json->contains(kind);
  const bool may_be_escaped = text.find("\\u") != std::string::npos;
  return may_be_escaped || text.find('"' + std::string{kind} + '"') != std::string::npos;
}

bool Catalog::read_platforms(const CatalogFolders& folders) {
  const fs::path& folder = folders.platforms;
  std::error_code error;
  std::set<fs::path> files;  // sorted: the result does not depend on the order of the directory
  for (const fs::directory_entry& entry : fs::directory_iterator{folder, error})
    if (entry.path().extension() == ".json") files.insert(entry.path());
  if (error) throw InputError{folder.string() + ": expected a catalog folder; " + error.message()};
  for (const fs::path& path : files) {
    PlatformFile& file = platform_files_.emplace_back(PlatformFile{path, read_json_text(path), nullptr});
    if (!folders.is_parsed_as_asked) (void)file.parsed();
  }
  for (const fs::directory_entry& entry : fs::directory_iterator{folder / "prices", error})
    if (entry.path().extension() == ".json") price_histories_[entry.path().stem().string()] = entry.path();
  return !files.empty() || !error;
}

const Catalog::Entries& Catalog::entries(const char* kind) const {
  const auto [found, is_new] = entries_.try_emplace(kind);
  if (!is_new) return found->second;
  for (PlatformFile& file : platform_files_) {
    if (!file.may_have(kind)) continue;
    const JsonReader reader{file.parsed(), file.path.string()};
    if (!reader.has(kind)) continue;
    const JsonReader all = reader.child(kind);
    for (const auto& [name, entry] : all.items())
      found->second[name] = Entry{file.json, &entry.value(), entry.file_name(), entry.pointer()};
  }
  return found->second;
}

const Catalog::Links& Catalog::links() const {
  if (links_) return *links_;
  links_.emplace();
  for (PlatformFile& file : platform_files_) {
    if (!file.may_have(kLinks)) continue;
    const JsonReader reader{file.parsed(), file.path.string()};
    if (!reader.has(kLinks)) continue;
    for (const JsonReader& entry : reader.children(kLinks)) {
      const RegionLink link = read_region_link(entry);
      (*links_)[std::minmax(link.from, link.to)] = link;
    }
  }
  return *links_;
}

JsonReader Catalog::find(std::string_view kind, const Entries& entries, const std::string& name,
                         const JsonReader& asked_by) const {
  const auto found = entries.find(name);
  if (found == entries.end()) {
    std::vector<std::string> names;
    for (const auto& [known, entry] : entries) names.push_back(known);
    asked_by.fail(unknown_name_message(kind, name, names));
  }
  return {*found->second.value, found->second.file_name, found->second.pointer};
}

JsonReader Catalog::accelerator(const std::string& name, const JsonReader& asked_by) const {
  return find("accelerator", entries("accelerators"), name, asked_by);
}
JsonReader Catalog::instance(const std::string& name, const JsonReader& asked_by) const {
  return find("instance", entries("instances"), name, asked_by);
}

JsonReader Catalog::interconnect(const std::string& name, const JsonReader& asked_by) const {
  return find("interconnect", entries("interconnects"), name, asked_by);
}

StoragePrice Catalog::storage(const std::string& name, const JsonReader& asked_by) const {
  return read_storage_price(name, find("storage", entries("storage"), name, asked_by));
}

Messaging Catalog::messaging(const std::string& name, const JsonReader& asked_by) const {
  return read_messaging(name, find("messaging", entries("messaging"), name, asked_by));
}

PriceHistory Catalog::price_history(const std::string& name, const JsonReader& asked_by) const {
  const auto found = price_histories_.find(name);
  if (found == price_histories_.end())
    asked_by.fail(unknown_name_message("price history", name, price_history_names()));
  const Json file = load_json_file(found->second);
  return read_price_history(JsonReader{file, found->second.string()});
}

JsonReader Catalog::spot_pool(const std::string& name, const JsonReader& asked_by) const {
  return find("spot pool", entries("spot_pools"), name, asked_by);
}

JsonReader Catalog::find_file(std::string_view kind, fs::path CatalogFolders::*folder, const std::string& name,
                              const JsonReader& asked_by) const {
  const bool is_plain = !name.empty() && name.find("..") == std::string::npos && name.front() != '/' &&
                        name.size() < 200 && name.find('\0') == std::string::npos;
  if (is_plain) {
    for (auto root = folders_.rbegin(); root != folders_.rend(); ++root) {
      const fs::path path = (*root).*folder / (name + ".json");
      std::error_code error;
      if (!fs::is_regular_file(path, error)) continue;
      auto& file = files_[path];
      if (file == nullptr) file = std::make_shared<const Json>(load_json_file(path));
      return {*file, path.string()};
    }
  }
  std::vector<std::string> known = file_names(folder);
  if (kind == "profile") known.emplace_back(kAutomaticProfile);
  asked_by.fail(kind == "model" ? unknown_network_message(kind, name, known) : unknown_name_message(kind, name, known));
}

JsonReader Catalog::model(const std::string& name, const JsonReader& asked_by) const {
  return find_file("model", &CatalogFolders::models, name, asked_by);
}
JsonReader Catalog::profile(const std::string& name, const JsonReader& asked_by) const {
  if (withheld_profiles_.contains(name)) asked_by.fail(unknown_name_message("profile", name, profile_names()));
  return find_file("profile", &CatalogFolders::profiles, name, asked_by);
}

const Profile* Catalog::readable_profile(const std::string& name) const {
  const auto [found, is_new] = readable_profiles_.try_emplace(name);
  if (is_new) try {
      const Json nobody;
      found->second = std::make_shared<const Profile>(read_profile(profile(name, JsonReader{nobody, name})));
    } catch (const InputError&) {}  // stays null
  return found->second.get();
}

const Accelerator* Catalog::known_accelerator(const std::string& name) const {
  if (const auto found = known_accelerators_.find(name); found != known_accelerators_.end()) return found->second.get();
  const Json nobody;
  std::shared_ptr<const Accelerator> gpu;
  if (const std::vector<std::string> names = accelerator_names(); std::ranges::find(names, name) != names.end())
    gpu = std::make_shared<const Accelerator>(read_accelerator(name, accelerator(name, JsonReader{nobody, name})));
  return known_accelerators_.emplace(name, std::move(gpu)).first->second.get();
}

const RegionLink* Catalog::region_link(const std::string& from, const std::string& to) const {
  const auto found = links().find(std::minmax(from, to));
  return found == links().end() ? nullptr : &found->second;
}

namespace {

template <class Value>
std::vector<std::string> keys_of(const std::map<std::string, Value>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

}  // namespace

std::vector<std::string> Catalog::accelerator_names() const { return keys_of(entries("accelerators")); }
std::vector<std::string> Catalog::instance_names() const { return keys_of(entries("instances")); }
std::vector<std::string> Catalog::interconnect_names() const { return keys_of(entries("interconnects")); }
std::vector<std::string> Catalog::price_history_names() const { return keys_of(price_histories_); }
std::vector<std::string> Catalog::spot_pool_names() const { return keys_of(entries("spot_pools")); }
std::vector<std::string> Catalog::messaging_names() const { return keys_of(entries("messaging")); }
std::vector<std::string> Catalog::region_names() const {
  std::set<std::string> names;
  for (const auto& [ends, link] : links()) names.insert({ends.first, ends.second});
  return {names.begin(), names.end()};
}

std::vector<std::string> Catalog::file_names(fs::path CatalogFolders::*folder) const {
  std::set<std::string> names;
  for (const CatalogFolders& root : folders_) {
    const fs::path base = root.*folder;
    std::error_code error;
    for (fs::recursive_directory_iterator entry{base, error}, end; !error && entry != end; entry.increment(error))
      if (entry->path().extension() == ".json")
        names.insert(entry->path().lexically_relative(base).replace_extension().string());
  }
  return {names.begin(), names.end()};
}
std::vector<std::string> Catalog::model_names() const { return file_names(&CatalogFolders::models); }
std::vector<std::string> Catalog::profile_names() const {
  std::vector<std::string> names = file_names(&CatalogFolders::profiles);
  std::erase_if(names, [&](const std::string& name) { return withheld_profiles_.contains(name); });
  return names;
}

Json Catalog::prediction_errors() const {
  Json errors = Json::object();
  for (const auto& [kind, entry] : entries("prediction_errors")) errors[kind] = *entry.value;
  return errors;
}

void Catalog::withhold_profiles(const std::set<std::string>& names) {
  withheld_profiles_.insert(names.begin(), names.end());
}

}  // namespace rehearse
