#include "sim/pool/job_text.hpp"

#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/base/names.hpp"
#include "sim/base/overloaded.hpp"

namespace rehearse {

namespace {

/// Filled before main(), and then only read.
std::map<std::string, Verb::Function>& functions() {
  static std::map<std::string, Verb::Function> by_name;
  return by_name;
}

Verb::Function find_function(const JsonReader& job) {
  const auto name = job.required<std::string>("verb");
  if (const auto found = functions().find(name); found != functions().end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [verb, function] : functions()) known.push_back(verb);
  job.fail("verb", unknown_name_message("verb", name, known));
}

/// Not parse_json(): names of files may hold any character.
Json parse_job(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception&) { throw InputError{"job: expected a JSON object; found " + in_quotes(text, 80)}; }
}

std::string job_text(const Json& head, const std::string& scenario) {
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.back() = ',';
  return text + "\"scenario\":" + scenario + "}\n";
}

std::string run_one(const Json& json) {
  const JsonReader job{json, "job"};
  job.expect(job.is_object(), "an object");
  const Verb::Function function = find_function(job);
  const JsonReader options = job.child("options");
  Scenario scenario = read_scenario(job.child("scenario").value(), job.required<std::string>("file"), Catalog{{}});
  if (job.has("places")) {
    scenario.set_by = job.required<std::string>("set_by");
    scenario.warnings = job.required<std::vector<std::string>>("warnings");
    const auto places = job.required<std::vector<std::string>>("places");
    job.expect(places.size() == scenario.groups.size() + scenario.links.size(), "places",
               "one of each group, then one of each link");
    auto place = places.begin();
    for (Group& group : scenario.groups) group.place = *place++;
    for (RegionLink& link : scenario.links) link.place = *place++;
  }
  job.reject_unknown_keys();
  return function(std::move(scenario), options);
}

/// Of a scenario as it was read, with the profile that it has by now.
std::string job_text(const Verb& verb, const Scenario& scenario, const Json& options) {
  Json effective = *scenario.effective;
  effective["calibration"] = to_json(scenario.profile);
  Json places = Json::array();
  for (const Group& group : scenario.groups) places.push_back(group.place);
  for (const RegionLink& link : scenario.links) places.push_back(link.place);
  return job_text({{"verb", verb.name()},
                   {"options", options},
                   {"file", scenario.file_name},
                   {"set_by", scenario.set_by},
                   {"places", std::move(places)},
                   {"warnings", scenario.warnings}},
                  to_json_text(effective));
}

/// Of all jobs of a batch, whichever of them fail.
template <class Jobs, class Run>
std::string results_of(Jobs& jobs, const Run& run) {
  Json results = Json::array();
  for (auto& job : jobs) try {
      results.push_back({{"result", run(job)}});
    } catch (const std::exception& error) { results.push_back({{"error", error.what()}}); }
  return results.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Verb::Verb(const char* name, Function function) : name_{name}, function_{function} {
  functions().emplace(name, function);
}

PoolJob Verb::job(Scenario scenario) const { return job(std::move(scenario), Json::object()); }

PoolJob Verb::job(Scenario scenario, Json options) const {
  return PoolJob{PoolJob::Read{this, std::make_shared<Scenario>(std::move(scenario)), share(std::move(options))}};
}

PoolJob Verb::job(Json effective, std::string file_name, Json options) const {
  return PoolJob{PoolJob::Changed{this, share(std::move(effective)), std::move(file_name), share(std::move(options))}};
}

std::string PoolJob::text() const {
  return std::visit(
      Overloaded{[](const std::string& text) { return text; },
                 [](const Read& read) { return job_text(*read.verb, *read.scenario, *read.options); },
                 [](const Changed& changed) {
                   return job_text(
                       {{"verb", changed.verb->name()}, {"options", *changed.options}, {"file", changed.file_name}},
                       changed.effective->dump());
                 },
                 [](const Batch& jobs) {
                   std::string text = "[";
                   for (const PoolJob& job : jobs) text += (text.size() > 1 ? "," : "") + job.text();
                   return text + "]\n";
                 }},
      what_);
}

std::string PoolJob::run() && {
  constexpr const char* kOptions = "/options";
  return std::visit(
      Overloaded{[](std::string& text) { return run_job(text); },
                 [](Read& read) {
                   return read.verb->run(std::move(*read.scenario), JsonReader{*read.options, "job", kOptions});
                 },
                 [](Changed& changed) {
                   return changed.verb->run(read_scenario(*changed.effective, changed.file_name, Catalog{{}}),
                                            JsonReader{*changed.options, "job", kOptions});
                 },
                 [](Batch& jobs) { return results_of(jobs, [](PoolJob& job) { return std::move(job).run(); }); }},
      what_);
}

PoolJob batch_of(std::vector<PoolJob> jobs) { return PoolJob{PoolJob::Batch{std::move(jobs)}}; }

std::string run_job(const std::string& text) {
  const Json json = parse_job(text);
  return json.is_array() ? results_of(json, run_one) : run_one(json);
}

}  // namespace rehearse
