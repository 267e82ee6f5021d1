#include "predictor/choices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace rehearse {

namespace {

constexpr double kSame = 1e-3;  // of predictions, relative: four digits do not tell them apart

struct Mean {
  double measured = 0;
  std::vector<double> predicted;
  double count = 0;
};

using Question = std::map<std::string, Mean>;  // by the alternative's name

Question means_of(const Question& sums) {
  Question means = sums;
  for (auto& [name, mean] : means) {
    mean.measured /= mean.count;
    for (double& time : mean.predicted) time /= mean.count;
  }
  return means;
}

double regret(const Question& question, std::size_t predictor, double best) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, mean] : question) {
    if (!std::isfinite(mean.predicted[predictor])) return std::nan("");
    least = std::min(least, mean.predicted[predictor]);
  }
  double sum = 0, chosen = 0;
  for (const auto& [name, mean] : question)
    if (mean.predicted[predictor] <= least * (1 + kSame)) {
      sum += mean.measured / best - 1;
      ++chosen;
    }
  return sum / chosen;
}

}  // namespace

std::vector<MeasuredChoice> measured_choices(std::span<const Alternative> alternatives) {
  std::map<std::pair<std::string, std::string>, Question> questions;
  for (const Alternative& alternative : alternatives) {
    if (!std::isfinite(alternative.measured) || !(alternative.measured > 0)) continue;
    Mean& sum = questions[{alternative.part, alternative.question}][alternative.name];
    sum.predicted.resize(alternative.predicted.size());
    sum.measured += alternative.measured;
    for (std::size_t p = 0; p < alternative.predicted.size(); ++p) sum.predicted[p] += alternative.predicted[p];
    ++sum.count;
  }
  std::vector<MeasuredChoice> choices;
  for (const auto& [of, sums] : questions) {
    if (sums.size() < kLeastAlternatives) continue;
    const Question question = means_of(sums);
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [name, mean] : question) best = std::min(best, mean.measured);
    MeasuredChoice& choice = choices.emplace_back();
    choice.part = of.first;
    choice.question = of.second;
    choice.alternatives = question.size();
    for (const auto& [name, mean] : question)
      choice.by_chance += (mean.measured / best - 1) / static_cast<double>(question.size());
    for (std::size_t p = 0; p < question.begin()->second.predicted.size(); ++p)
      choice.regrets.push_back(regret(question, p, best));
  }
  return choices;
}

RegretScore regret_score(std::span<const MeasuredChoice> choices, std::size_t predictor, const std::string& part) {
  RegretScore score;
  for (const MeasuredChoice& choice : choices) {
    if ((!part.empty() && choice.part != part) || std::isnan(choice.regrets[predictor])) continue;
    ++score.questions;
    score.mean += choice.regrets[predictor];
    score.by_chance += choice.by_chance;
    score.largest = std::max(score.largest, choice.regrets[predictor]);
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, score.questions));
  score.mean /= count;
  score.by_chance /= count;
  return score;
}

}  // namespace rehearse
