#pragma once
// Names of measured runs: framework-model-optimizer-batch-backend-loss-topology.

#include <optional>
#include <string>
#include <string_view>

namespace rehearse {

/// What a name such as "tf_sync-mobilenetv2-adam-64-grpc_nccl-loss_0.1-ring" says.
/// Source: the runs of doi 10.14459/2021mp1632489.
struct RunName {
  std::string framework;  // tf_sync, horovod, kungfu_ssgd, kungfu_pairavg
  std::string model, optimizer, backend, topology;
  int batch = 0;            // as named
  double loss_percent = 0;  // of packets

  /// Samples that a worker has in a step: Horovod's and KungFu's programs feed four times the batch that is named.
  int batch_per_worker() const;
  std::string framework_backend() const { return framework + "_" + backend; }
};

/// None of another name. The runner's own names are taken, too: "tensorflow" is tf_sync, "kungfu" is kungfu_ssgd, a bare
/// number in place of "loss_0.1" is that loss.
std::optional<RunName> parse_run_name(std::string_view name);

/// The same of a setting, a name without model, optimizer and loss: "tf_sync-64-grpc_nccl-ring". Pairs that average have
/// no topology: "kungfu_pairavg-64-kungfu".
std::optional<RunName> parse_setting_name(std::string_view name);

/// Sizes of a model in bytes: as the catalogue lists it for ImageNet's 1000 classes, and as it was trained, for images
/// of 32x32 and 10 classes.
struct StudiedModel {
  std::string_view name;
  double catalogue_bytes = 0, trained_bytes = 0;
};
/// The catalogs call them "tum/mobilenet_v2".
std::optional<StudiedModel> find_studied_model(std::string_view name);

}  // namespace rehearse
