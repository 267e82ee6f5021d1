#pragma once
// The values of a profile that a fit may change, as logarithms: whatever their unit, a step of 0.01 is one percent.

#include <Eigen/Core>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/detail/least_squares.hpp"
#include "calibration/study.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

class FreeValues {
 public:
  /// `profile` is a profile file's value and must outlive this. A pointer that is declared several times gets the
  /// narrowest limits. `accepts` says whether a changed profile can be read: limits that are not declared are where it
  /// begins to refuse, at most a factor of 1e6 from the start. Throws InputError.
  FreeValues(const Json& profile, std::string file_name, const std::vector<FreeValue>& declared,
             const std::function<bool(const Json& profile)>& accepts);

  std::size_t size() const { return values_.size(); }
  const std::string& pointer(std::size_t i) const { return values_[i].pointer; }
  const Eigen::VectorXd& start() const { return start_; }  // within the bounds
  const Bounds& bounds() const { return bounds_; }

  /// The profile with these values, rounded to eight digits.
  Json profile_with(const Eigen::VectorXd& logs) const;

  /// [priors] ln(value / its prior) kHuber / ln(factor): a factor of that size counts as a row that is off by kHuber.
  Eigen::VectorXd prior_residuals(const Eigen::VectorXd& logs) const;
  Eigen::Index priors() const { return static_cast<Eigen::Index>(priors_.size()); }

  /// A value as the file has it, with its unit, at `digits` significant digits.
  std::string text(std::size_t i, double log_value, int digits = 4) const;

 private:
  enum class Unit { kNone, kTime, kRate, kSpeed };
  struct Value {
    std::string pointer;
    Unit unit = Unit::kNone;
  };

  struct Prior {
    Eigen::Index value = 0, other = -1;  // -1: none, but the constant `log`
    double log = 0, weight = 1;
  };

  /// Throws InputError.
  Prior prior_of(std::size_t i, const FreeValue& declared) const;
  /// The value and the logarithm from which its fit starts.
  std::pair<Value, double> read(const FreeValue& declared) const;
  static std::optional<double> parse(const std::string& text, Unit unit);
  /// The logarithm of a declared limit; `otherwise` if there is none.
  double limit(const FreeValue& declared, const std::string& text, Unit unit, double otherwise) const;
  double farthest(std::size_t i, double direction, const std::function<bool(const Json& profile)>& accepts) const;

  const Json& profile_;
  std::string file_name_;
  std::vector<Value> values_;
  std::vector<Prior> priors_;
  Eigen::VectorXd start_;
  Bounds bounds_;
};

}  // namespace rehearse
