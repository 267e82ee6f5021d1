#include "platforms/pool_origin.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include "platforms/price.hpp"

namespace rehearse {

PoolOrigin read_pool_origin(const JsonReader& pool) {
  if (!pool.has("fitted_on")) return {};
  const JsonReader json = pool.child("fitted_on");
  PoolOrigin origin{.accelerator = json.optional<std::string>("accelerator", ""),
                    .place = json.optional<std::string>("place", ""),
                    .from = json.optional<std::string>("from", ""),
                    .to = json.optional<std::string>("to", "")};
  for (const auto& [key, date] : {std::pair{"from", &origin.from}, std::pair{"to", &origin.to}}) {
    const bool is_date =
        std::all_of(date->begin(), date->end(), [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
    const bool is_whole = date->empty() || date->size() == 4 || date->size() == 7 || date->size() == 10;
    json.expect(is_date && is_whole, key, "a date such as 2023, 2023-02 or 2023-02-15");
  }
  json.expect(origin.from.empty() == origin.to.empty(), "to", "\"from\" and \"to\" together");
  json.reject_unknown_keys();
  return origin;
}

std::string describe_difference(const PoolOrigin& origin, const std::string& accelerator, const std::string& place,
                                const std::optional<std::string>& date) {
  std::string own, fitted;
  const auto add = [&](const std::string& mine, const std::string& theirs) {
    own += (own.empty() ? "" : " ") + mine;
    fitted += (fitted.empty() ? "" : " ") + theirs;
  };
  const auto is_same_letter = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  if (!origin.accelerator.empty() && !accelerator.empty() &&
      !std::ranges::equal(accelerator, origin.accelerator, is_same_letter))
    add(accelerator, origin.accelerator);
  if (!origin.place.empty() && !lies_in(place, origin.place) && !lies_in(origin.place, place))
    add("in " + place, "in " + origin.place);
  if (date && !origin.from.empty() &&
      (date->substr(0, origin.from.size()) < origin.from || date->substr(0, origin.to.size()) > origin.to))
    add("on " + *date, origin.from == origin.to ? "on " + origin.from : "from " + origin.from + " to " + origin.to);
  return own.empty() ? "" : own + ", not " + fitted;
}

}  // namespace rehearse
