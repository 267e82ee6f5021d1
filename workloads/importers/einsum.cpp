#include "workloads/importers/einsum.hpp"

#include <map>
#include <string_view>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

using Shape = std::vector<std::int64_t>;

/// Axes that "..." stands for, of both inputs, counted from the last.
void merge(Shape& all, const Shape& own) {
  if (own.size() > all.size()) all.insert(all.begin(), own.size() - all.size(), 1);
  for (std::size_t i = 1; i <= own.size(); ++i) {
    std::int64_t& size = all[all.size() - i];
    if (size == 1 || size < 0) size = own[own.size() - i];
  }
}

}  // namespace

std::optional<Shape> einsum_shape(std::string equation, const Shape& a, const Shape& b) {
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->"), comma = equation.find(',');
  if (arrow == std::string::npos || comma == std::string::npos || comma > arrow) return std::nullopt;
  std::map<char, std::int64_t> sizes;
  Shape rest;
  const auto read = [&](std::string_view letters, const Shape& x) {
    const std::size_t dots = letters.find("...");
    const bool has_dots = dots != std::string_view::npos;
    const std::size_t named = has_dots ? letters.size() - 3 : letters.size();
    if (named > x.size() || (!has_dots && named != x.size()))
      throw InputError{"its equation has other axes than its inputs"};
    std::size_t axis = 0;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      if (i != dots) {
        sizes[letters[i]] = x[axis++];
        continue;
      }
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(axis);
      const auto left = static_cast<std::ptrdiff_t>(x.size() - named);
      merge(rest, Shape{begin, begin + left});
      axis += static_cast<std::size_t>(left);
      i += 2;
    }
  };
  read(std::string_view{equation}.substr(0, comma), a);
  read(std::string_view{equation}.substr(comma + 1, arrow - comma - 1), b);
  Shape y;
  const std::string_view result = std::string_view{equation}.substr(arrow + 2);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result.substr(i, 3) == "...") {
      y.insert(y.end(), rest.begin(), rest.end());
      i += 2;
      continue;
    }
    const auto size = sizes.find(result[i]);
    if (size == sizes.end()) throw InputError{"its equation gives an axis that no input has"};
    y.push_back(size->second);
  }
  return y;
}

}  // namespace rehearse
