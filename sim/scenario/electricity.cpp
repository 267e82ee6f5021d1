#include "sim/scenario/electricity.hpp"

#include "sim/base/json.hpp"

namespace rehearse {

double Electricity::kwh(double joules) const {
  constexpr double kJoulesPerKwh = 3.6e6;
  return joules * pue / kJoulesPerKwh;
}

std::optional<double> Electricity::usd(double kwh) const {
  return usd_per_kwh ? std::optional{*usd_per_kwh * kwh} : std::nullopt;
}

std::optional<double> Electricity::co2_kg(double kwh) const {
  constexpr double kGramsPerKg = 1000;
  return gco2_per_kwh ? std::optional{*gco2_per_kwh * kwh / kGramsPerKg} : std::nullopt;
}

Electricity read_electricity(const JsonReader& json) {
  Electricity electricity;
  const auto read = [&](const char* key, double least, double most, const char* expected) -> std::optional<double> {
    const auto value = json.maybe<double>(key);
    if (value) json.expect(*value >= least && *value <= most, key, expected);
    return value;
  };
  electricity.usd_per_kwh = read("usd_per_kwh", 0, 100, "0 to 100 USD");
  electricity.gco2_per_kwh = read("gco2_per_kwh", 0, 10000, "0 to 10000 g");
  electricity.pue = read("pue", 1, 10, "1 to 10").value_or(1);
  if (json.has("source")) (void)json.required<std::string>("source");
  json.reject_unknown_keys();
  return electricity;
}

std::string electricity_schema() {
  return R"json({
          "type": "object",
          "additionalProperties": false,
          "description": "what a kilowatt-hour costs where the machines are, for usd_energy and co2_kg",
          "properties": {
            "usd_per_kwh": { "type": "number", "minimum": 0, "maximum": 100 },
            "gco2_per_kwh": { "type": "number", "minimum": 0, "maximum": 10000, "description": "carbon intensity: 20 to 50 of water and nuclear power, 400 to 500 of gas, about 1000 of coal" },
            "pue": { "type": "number", "minimum": 1, "maximum": 10, "default": 1, "description": "power usage effectiveness: what the site draws by what the machines do; 1.1 to 1.6" },
            "source": { "type": "string" } } })json";
}

}  // namespace rehearse
