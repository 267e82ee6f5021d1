// `rehearse list`: what the catalogs hold, with what people choose by. Names come first in each line.

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "platforms/collective_algorithm.hpp"
#include "platforms/fabric.hpp"
#include "platforms/profile_choice.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/collective/collective.hpp"
#include "sim/plan/goal.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse {

namespace {

struct ListCommand {
  CommonOptions common;
  std::string kind;
  std::string gpu, provider;  // of instances
  bool is_spot = false;
};

void add_options(Options options, ListCommand& command) {
  options
      .add_option(
          "KIND", command.kind,
          "gpus, instances, interconnects, regions, models, profiles, spot_pools, messaging, topologies or algorithms")
      .required();
  options.add_option("--gpu", command.gpu, "NAME", "Of instances, those with this GPU; A100 is also A100 80GB");
  options.add_option("--provider", command.provider, "NAME", "Of instances, those of aws, gce, azure or another");
  options.add_flag("--spot", command.is_spot, "Of instances, those with a spot price");
  options.add_flag("--json", command.common.prints_json, "Print an array of objects instead of lines");
  add_catalogs(options, command.common);
}

/// What there is of one name: columns of its line, and the same as JSON.
struct Entry {
  std::vector<std::string> columns;  // the name first
  Json json;
};

const Json& nobody() {
  static const Json none;
  return none;
}
JsonReader asked_by(const std::string& name) { return {nobody(), name}; }

std::string rounded_text(double value) { return formatted("%.3g", value); }

/// Memory as it is sold: "40GiB" of a GPU that has 40536 MiB.
std::string whole_gibibytes(Bytes bytes) {
  return std::to_string(std::llround(as_double(bytes) / (1024.0 * 1024 * 1024))) + "GiB";
}

Entry describe_gpu(const Catalog& catalog, const std::string& name) {
  const Accelerator gpu = read_accelerator(name, catalog.accelerator(name, asked_by(name)));
  return {{name, whole_gibibytes(gpu.memory), to_text(gpu.memory_bandwidth), to_text(gpu.peak_fp32) + " fp32",
           to_text(gpu.peak_fp16) + " fp16"},
          {{"name", name},
           {"memory", to_text(gpu.memory)},
           {"memory_bandwidth", to_text(gpu.memory_bandwidth)},
           {"peak_fp32", to_text(gpu.peak_fp32)},
           {"peak_fp16", to_text(gpu.peak_fp16)},
           {"host_link", to_text(gpu.host_link)},
           {"source", gpu.source}}};
}

/// "0.9 USD/h (us-east-1, 2020)"
std::string price_text(const Json& price) {
  if (price.is_null()) return "-";
  std::string where;
  for (const char* key : {"region", "date"})
    if (price.contains(key)) where += (where.empty() ? "" : ", ") + price[key].get<std::string>();
  return rounded_text(price["usd_per_hour"].get<double>()) + " USD/h" + (where.empty() ? "" : " (" + where + ")");
}

/// The price that holds anywhere, or else that of the first region.
Json price_of(const Instance& instance, bool is_spot) {
  if (const auto any = is_spot ? instance.usd_per_hour_spot : instance.usd_per_hour_on_demand)
    return {{"usd_per_hour", *any}};
  for (const RegionalPrice& price : instance.prices)
    if (price.is_spot == is_spot)
      return {{"usd_per_hour", price.usd_per_hour}, {"region", price.regions.front()}, {"date", price.date}};
  return {};
}

Entry describe_instance(const Catalog& catalog, const std::string& name) {
  const Instance instance = read_instance(name, catalog.instance(name, asked_by(name)));
  const Json on_demand = price_of(instance, false), spot = price_of(instance, true);
  std::string gpus = "-";
  Json memory;
  if (!instance.accelerator.empty()) {
    const Accelerator gpu =
        read_accelerator(instance.accelerator, catalog.accelerator(instance.accelerator, asked_by(name)));
    gpus =
        std::to_string(instance.accelerators) + " x " + instance.accelerator + " (" + whole_gibibytes(gpu.memory) + ")";
    memory = to_text(gpu.memory);
  }
  return {{name, gpus, std::to_string(instance.vcpus) + " vCPUs", to_text(instance.memory),
           (instance.nics > 1 ? std::to_string(instance.nics) + " x " : "") + to_text(instance.nic),
           price_text(on_demand), "spot " + price_text(spot)},
          {{"name", name},
           {"accelerator", instance.accelerator.empty() ? Json{} : Json(instance.accelerator)},
           {"accelerators", instance.accelerators},
           {"accelerator_memory", memory},
           {"vcpus", instance.vcpus},
           {"memory", to_text(instance.memory)},
           {"nic", to_text(instance.nic)},
           {"nics", instance.nics},
           {"on_demand", on_demand},
           {"spot", spot},
           {"provider", instance.provider},
           {"source", instance.source}}};
}

/// Those of the list that the options ask for.
std::vector<Entry> chosen(std::vector<Entry> entries, const ListCommand& command, const Catalog& catalog) {
  if (command.gpu.empty() && command.provider.empty() && !command.is_spot) return entries;
  if (command.kind != "instances")
    throw InputError{"--gpu, --provider and --spot: expected \"instances\"; found " + in_quotes(command.kind)};
  const std::vector<std::string> gpus = catalog.accelerator_names();
  if (!command.gpu.empty() &&
      std::ranges::none_of(gpus, [&](const std::string& gpu) { return is_board({command.gpu}, gpu); }))
    throw InputError{"--gpu: " + unknown_name_message("GPU", command.gpu, gpus)};
  std::erase_if(entries, [&](const Entry& entry) {
    const Json& json = entry.json;
    const bool has_gpu =
        json["accelerator"].is_string() && is_board({command.gpu}, json["accelerator"].get<std::string>());
    return (!command.gpu.empty() && !has_gpu) || (!command.provider.empty() && json["provider"] != command.provider) ||
           (command.is_spot && json["spot"].is_null());
  });
  if (entries.empty())
    throw NoResultError{"the catalogs have no instance" +
                        (command.gpu.empty() ? "" : " with " + in_quotes(command.gpu)) +
                        (command.provider.empty() ? "" : " of provider " + in_quotes(command.provider)) +
                        (command.is_spot ? " that has a spot price; without --spot all are listed" : "")};
  return entries;
}

Entry describe_profile(const Catalog& catalog, const std::string& name) {
  const JsonReader reader = catalog.profile(name, asked_by(name));
  const Profile profile = read_profile(reader);
  const Json& file = reader.value();
  Json json{{"name", name},
            {"gpus", profile.fitted_accelerators},
            {"models", profile.fitted_models},
            {"strategies", fitted_strategies(profile)},
            {"rows", Json{}},
            {"error", Json{}},
            {"source", profile.source}};
  if (!file.contains("fit")) return {{name, "not fitted", "", "", ""}, std::move(json)};
  // Rows of the intervals: also those that only the errors, and no value, were taken from.
  const Json& fit = file["fit"];
  const std::string rows = std::to_string(fit.value("interval_rows", fit.value("rows", 0)));
  json["rows"] = fit.value("interval_rows", fit.value("rows", 0));
  if (profile.uncertainty.residual > 0) json["error"] = profile.uncertainty.residual;
  const std::string error = profile.uncertainty.residual > 0
                                ? "error " + rounded_text(100 * profile.uncertainty.residual) + " %"
                                : "error unknown";
  return {{name, joined(profile.fitted_accelerators), joined(fitted_strategies(profile)), rows + " rows", error,
           joined(profile.fitted_models)},
          std::move(json)};
}

/// The name, and what is known of its loss.
Entry describe_model(const Catalog& catalog, const std::string& name) {
  const ModelDescription model = read_model(name, catalog.model(name, asked_by(name)));
  const bool is_missing = !model.no_convergence.empty();
  return {{name, model.convergence ? "has coefficients of convergence"
                 : is_missing      ? "convergence is missing: " + model.no_convergence
                                   : ""},
          {{"name", name},
           {"has_convergence", model.convergence.has_value()},
           {"no_convergence", is_missing ? Json(model.no_convergence) : Json{}}}};
}

/// What it adds to data, and where that is from.
Entry describe_messaging(const Catalog& catalog, const std::string& name) {
  const Messaging messaging = catalog.messaging(name, asked_by(name));
  const auto of = [](Bytes size, const char* what) {
    return size == Bytes{} ? std::string{} : to_text(size) + " " + what;
  };
  const std::string period =
      messaging.coordination_period == Seconds{} ? "in each step" : "every " + to_text(messaging.coordination_period);
  Json json = to_json(messaging);
  return {
      {name, of(messaging.message_header, "for a message"),
       of(messaging.chunk_header, ("before each " + to_text(messaging.chunk)).c_str()), of(messaging.request, "asked"),
       of(messaging.coordination, ("agreed on " + period).c_str()), messaging.source},
      std::move(json)};
}

std::vector<Entry> plain(const std::vector<std::string>& names) {
  std::vector<Entry> entries;
  for (const std::string& name : names) entries.push_back({{name}, {{"name", name}}});
  return entries;
}

template <class Describe>
std::vector<Entry> described(const Catalog& catalog, const std::vector<std::string>& names, Describe describe) {
  std::vector<Entry> entries;
  for (const std::string& name : names) entries.push_back(describe(catalog, name));
  return entries;
}

/// What connects machines, then what connects the GPUs of one: name and one line each.
std::vector<Entry> describe_topologies(const Catalog& catalog) {
  std::vector<std::pair<std::string, std::string>> names = list_fabrics();
  for (const std::string& name : catalog.interconnect_names())
    names.emplace_back(
        name, "inside a machine: " +
                  catalog.interconnect(name, asked_by(name)).optional<std::string>("source", "source not stated"));
  std::vector<Entry> entries;
  for (const auto& [name, description] : names)
    entries.push_back({{name, description}, {{"name", name}, {"description", description}}});
  return entries;
}

/// The word, what it is, and its other words.
std::vector<Entry> describe_algorithms(const Catalog&) {
  std::vector<Entry> entries;
  for (const auto& [word, algorithm] : collective_algorithms()) {
    std::vector<std::string> others;
    for (const auto& [alias, means] : collective_algorithm_aliases())
      if (means == algorithm) others.push_back(alias);
    const std::string title = all_reduce_algorithm(algorithm).title;
    entries.push_back({{word, title + (others.empty() ? "" : "; also " + joined(others))},
                       {{"name", word}, {"description", title}, {"also", others}}});
  }
  return entries;
}

Answer answer_of(const std::vector<Entry>& entries) {
  Answer answer;
  Json all = Json::array();
  std::vector<std::size_t> widths;
  for (const Entry& entry : entries) {
    widths.resize(std::max(widths.size(), entry.columns.size()));
    for (std::size_t i = 0; i < entry.columns.size(); ++i)
      widths[i] = std::max(widths[i], printable(entry.columns[i]).size());
  }
  for (const Entry& entry : entries) {
    std::string line;
    for (std::size_t i = 0; i < entry.columns.size(); ++i) {
      const std::string text = printable(entry.columns[i]);
      line += text + std::string(widths[i] + 2 - text.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    answer.line(line);
    all.push_back(entry.json);
  }
  answer.json = to_json_text(all);
  return answer;
}

using ListKind = std::vector<Entry> (*)(const Catalog&);
constexpr std::array<Named<ListKind>, 10> kKinds{
    {{"gpus", [](const Catalog& c) { return described(c, c.accelerator_names(), describe_gpu); }},
     {"instances", [](const Catalog& c) { return described(c, c.instance_names(), describe_instance); }},
     {"interconnects", [](const Catalog& c) { return plain(c.interconnect_names()); }},
     {"regions", [](const Catalog& c) { return plain(c.region_names()); }},
     {"models", [](const Catalog& c) { return described(c, c.model_names(), describe_model); }},
     {"profiles", [](const Catalog& c) { return described(c, c.profile_names(), describe_profile); }},
     {"spot_pools", [](const Catalog& c) { return plain(c.spot_pool_names()); }},
     {"messaging", [](const Catalog& c) { return described(c, c.messaging_names(), describe_messaging); }},
     {"topologies", describe_topologies},
     {"algorithms", describe_algorithms}}};

Answer run(const ListCommand& command) {
  const std::string& kind = command.kind;
  const Catalog catalog = load_catalog_as_asked(command.common);
  const auto* known = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& one) { return kind == one.name; });
  if (known == kKinds.end()) throw InputError{"list: " + unknown_name_message("kind", kind, names_in(kKinds))};
  return answer_of(chosen(known->value(catalog), command, catalog));
}

}  // namespace

CommandVerb list_verb() {
  return make_verb<ListCommand>("list",
                                "What the catalogs hold\n\nExample: rehearse list models\n"
                                "         rehearse list instances --gpu H100 --provider aws",
                                add_options, run);
}

}  // namespace rehearse
