#include "sim/pool/job_text.hpp"

#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/base/names.hpp"

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

}  // namespace

Verb::Verb(const char* name, Function function) : name_{name}, function_{function} {
  functions().emplace(name, function);
}

std::string Verb::job(const Scenario& scenario) const { return job(scenario, Json::object()); }

std::string Verb::job(const Scenario& scenario, const Json& options) const {
  Json places = Json::array();
  for (const Group& group : scenario.groups) places.push_back(group.place);
  for (const RegionLink& link : scenario.links) places.push_back(link.place);
  return job_text({{"verb", name_},
                   {"options", options},
                   {"file", scenario.file_name},
                   {"set_by", scenario.set_by},
                   {"places", std::move(places)},
                   {"warnings", scenario.warnings}},
                  scenario.effective);
}

std::string Verb::job(const Json& effective, const std::string& file_name, const Json& options) const {
  return job_text({{"verb", name_}, {"options", options}, {"file", file_name}}, effective.dump());
}

PoolJob Verb::job(Scenario&& scenario, Json options) const {
  return PoolJob{*this, std::move(scenario), std::move(options)};
}

PoolJob Verb::job(Scenario&& scenario) const { return job(std::move(scenario), Json::object()); }

PoolJob::PoolJob(const Verb& verb, Scenario&& scenario, Json&& options)
    : what_{Read{&verb, std::make_shared<Scenario>(std::move(scenario)),
                 std::make_shared<const Json>(std::move(options))}} {}

std::string PoolJob::text() const {
  if (const auto* text = std::get_if<std::string>(&what_)) return *text;
  const Read& read = std::get<Read>(what_);
  return read.verb->job(std::as_const(*read.scenario), *read.options);
}

std::string PoolJob::run() && {
  if (const auto* text = std::get_if<std::string>(&what_)) return run_job(*text);
  Read& read = std::get<Read>(what_);
  return read.verb->run(std::move(*read.scenario), JsonReader{*read.options, "job", "/options"});
}

std::string batch_of(const std::vector<std::string>& jobs) {
  std::string text = "[";
  for (const std::string& job : jobs) text += (text.size() > 1 ? "," : "") + job;
  return text + "]\n";
}

std::string run_job(const std::string& text) {
  const Json json = parse_job(text);
  if (!json.is_array()) return run_one(json);
  Json results = Json::array();
  for (const Json& job : json) try {
      results.push_back({{"result", run_one(job)}});
    } catch (const std::exception& error) { results.push_back({{"error", error.what()}}); }
  return results.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rehearse
