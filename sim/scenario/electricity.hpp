#pragma once
// What electricity costs where machines are, and what it emits.

#include <optional>
#include <string>

namespace rehearse {

class JsonReader;

struct Electricity {
  std::optional<double> usd_per_kwh, gco2_per_kwh;
  double pue = 1;  // power usage effectiveness: what the site draws by what machines do

  bool operator==(const Electricity&) const = default;

  /// Of what machines draw, J: with what the site adds.
  double kwh(double joules) const;
  /// USD and kg of CO2 of so many kWh; none where it is not said.
  std::optional<double> usd(double kwh) const;
  std::optional<double> co2_kg(double kwh) const;
};

/// { "usd_per_kwh": 0.1, "gco2_per_kwh": 400, "pue": 1.2 }. Throws InputError.
Electricity read_electricity(const JsonReader& json);
/// JSON Schema of what it reads.
std::string electricity_schema();

}  // namespace rehearse
