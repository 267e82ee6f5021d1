#include "calibration/detail/regressor.hpp"

#include <libsvm/svm.h>

#include <Eigen/QR>
#include <cmath>
#include <vector>

namespace rehearse {

namespace {

/// LIBSVM's row: the features, numbered from 1, and an end mark.
std::vector<svm_node> nodes_of(const Eigen::VectorXd& x) {
  std::vector<svm_node> nodes;
  for (Eigen::Index i = 0; i < x.size(); ++i) nodes.push_back({static_cast<int>(i) + 1, x[i]});
  nodes.push_back({-1, 0});
  return nodes;
}

svm_parameter parameters_of(const RegressionSettings& settings, Eigen::Index features) {
  svm_parameter parameters{};
  parameters.svm_type = EPSILON_SVR;
  parameters.kernel_type = settings.kind == RegressionSettings::Kind::kPolynomial ? POLY : RBF;
  parameters.degree = 2;
  parameters.gamma = 1 / static_cast<double>(features);
  parameters.coef0 = 1;
  parameters.cache_size = 100;  // MB
  parameters.eps = 1e-6;
  parameters.C = settings.cost;
  parameters.p = settings.tube;
  parameters.shrinking = 1;
  return parameters;
}

}  // namespace

/// A model refers to the rows that it was trained on.
struct Regressor::SupportVectors {
  std::vector<std::vector<svm_node>> rows;
  std::vector<svm_node*> pointers;
  svm_model* model = nullptr;

  SupportVectors(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const RegressionSettings& settings) {
    for (Eigen::Index i = 0; i < x.rows(); ++i) rows.push_back(nodes_of(x.row(i)));
    for (std::vector<svm_node>& row : rows) pointers.push_back(row.data());
    std::vector<double> targets(y.begin(), y.end());
    const svm_problem problem{static_cast<int>(x.rows()), targets.data(), pointers.data()};
    const svm_parameter parameters = parameters_of(settings, x.cols());
    svm_set_print_string_function([](const char*) {});
    model = svm_train(&problem, &parameters);
  }
  ~SupportVectors() { svm_free_and_destroy_model(&model); }
  SupportVectors(const SupportVectors&) = delete;
  SupportVectors& operator=(const SupportVectors&) = delete;
};

Regressor::Regressor(const Eigen::MatrixXd& x, const Eigen::VectorXd& y, const RegressionSettings& settings)
    : low_{x.colwise().minCoeff()}, scale_{x.colwise().maxCoeff().transpose() - low_} {
  for (double& width : scale_) width = width > 0 ? 1 / width : 0;
  Eigen::MatrixXd rows(x.rows(), x.cols());
  for (Eigen::Index i = 0; i < x.rows(); ++i) rows.row(i) = scaled(x.row(i));
  if (settings.kind != RegressionSettings::Kind::kLinear) {
    vectors_ = std::make_unique<SupportVectors>(rows, y, settings);
    return;
  }
  // sqrt(ridge rows) b = 0 are further rows of the least squares.
  const Eigen::Index features = settings.ridge > 0 ? x.cols() : 0;
  const Eigen::RowVectorXd middle = rows.colwise().mean();
  Eigen::MatrixXd centred(x.rows() + features, x.cols());
  centred.topRows(x.rows()) = rows.rowwise() - middle;
  centred.bottomRows(features).setZero();
  centred.bottomRows(features).diagonal().setConstant(std::sqrt(settings.ridge * static_cast<double>(x.rows())));
  Eigen::VectorXd from_mean = Eigen::VectorXd::Zero(centred.rows());
  from_mean.head(x.rows()) = y.array() - y.mean();
  slope_ = centred.completeOrthogonalDecomposition().solve(from_mean);
  intercept_ = y.mean() - middle.dot(slope_);
}

Regressor::Regressor(Regressor&&) noexcept = default;
Regressor::~Regressor() = default;

Eigen::VectorXd Regressor::scaled(const Eigen::VectorXd& x) const { return (x - low_).cwiseProduct(scale_); }

double Regressor::predict(const Eigen::VectorXd& x) const {
  const Eigen::VectorXd row = scaled(x);
  return vectors_ ? svm_predict(vectors_->model, nodes_of(row).data()) : intercept_ + slope_.dot(row);
}

}  // namespace rehearse
