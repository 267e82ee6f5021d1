// The one table of what frameworks call the numbers that they log. Sources: the frameworks' own print statements, whose
// functions are named where a form begins.

#include <algorithm>
#include <array>
#include <cctype>

#include "calibration/detail/logged_steps.hpp"

namespace rehearse {

namespace {

using enum LogMeaning;

constexpr double kMilli = 1e-3;

/// Megatron-LM's training_log(), and what NeoX, Megatron-DeepSpeed, MindSpeed and others made of it. One line each
/// --log-interval steps; the time is the mean over them, evaluations excluded.
constexpr std::array kMegatron{LogName{"iteration", kStep},
                               LogName{"elapsed time per iteration (ms)", kStepTime, kMilli},
                               LogName{"elapsed time per iteration (s)", kStepTime},
                               LogName{"elapsed_time_per_iteration_ms", kStepTime, kMilli},
                               LogName{"global batch size", kBatch},
                               LogName{"gloabl batch size", kBatch},
                               LogName{"global_batch_size", kBatch},
                               LogName{"consumed samples", kSamples},
                               LogName{"consumed_samples", kSamples},
                               LogName{"consumed tokens", kTokens},
                               LogName{"consumed_tokens", kTokens},
                               LogName{"samples per second", kSamplesPerSecond},
                               LogName{"samples/sec", kSamplesPerSecond},
                               LogName{"tokens per gpu per second (tgs)", kTokensPerSecondPerGpu},
                               LogName{"tokens_per_sec", kTokensPerSecond},
                               LogName{"tokens_per_sec_per_gpu", kTokensPerSecondPerGpu}};

/// nanotron's train_step_logs(). Until 0.4 its global batch is in samples, as in kMegatron; since it logs
/// time_per_iteration_ms it is in tokens.
constexpr std::array kNanotron{LogName{"iteration", kStep},
                               LogName{"time_per_iteration_ms", kStepTime, kMilli},
                               LogName{"global_batch_size", kBatchTokens},
                               LogName{"consumed_tokens", kTokens},
                               LogName{"tokens_per_sec", kTokensPerSecond},
                               LogName{"tokens_per_sec_per_gpu", kTokensPerSecondPerGpu}};

/// NeMo's progress bar and its ProgressPrinter.
constexpr std::array kNemo{LogName{"global_step", kStep}, LogName{"train_step_timing in s", kStepTime},
                           LogName{"global_batch_size", kBatch}, LogName{"consumed_samples", kSamples}};

/// torchtitan's MetricsProcessor.log(): tokens per second of one GPU, what shares a sample with it taken off.
constexpr std::array kTorchtitan{LogName{"step", kStep}, LogName{"tps", kTokensPerSecondPerGpu},
                                 LogName{"wps", kTokensPerSecondPerGpu}};

/// Composer's ConsoleLogger with its SpeedMonitor, as llm-foundry runs them: a block for each logged batch. Rates are
/// means over the monitor's window.
constexpr std::array kComposer{LogName{"throughput/batches_per_sec", kStepsPerSecond},
                               LogName{"throughput/samples_per_sec", kSamplesPerSecond},
                               LogName{"throughput/device/samples_per_sec", kSamplesPerSecondPerGpu},
                               LogName{"throughput/tokens_per_sec", kTokensPerSecond},
                               LogName{"throughput/device/tokens_per_sec", kTokensPerSecondPerGpu},
                               LogName{"time/sample", kSamples},
                               LogName{"time/token", kTokens}};

/// DeepSpeed's PipelineEngine.train_batch(): means over steps_per_print steps.
constexpr std::array kDeepspeedPipeline{LogName{"steps", kStep}, LogName{"step", kStep},
                                        LogName{"iter time (s)", kStepTime}, LogName{"samples/sec", kSamplesPerSecond}};

/// DeepSpeed's ThroughputTimer.stop(), each steps_per_print steps: the rate of the last step, and until 0.5 the mean over
/// all from the second on alone.
constexpr std::array kDeepspeedCurrent{LogName{"CurrSamplesPerSec", kSamplesPerSecond}};
constexpr std::array kDeepspeedAverage{LogName{"SamplesPerSec", kSamplesPerSecond}};

/// What scripts print of themselves, such as those of DeepSpeed's examples.
constexpr std::array kSamplesPerSec{LogName{"global_step", kStep}, LogName{"step", kStep}, LogName{"steps", kStep},
                                    LogName{"iteration", kStep}, LogName{"samples/sec", kSamplesPerSecond}};

/// Hugging Face's Trainer: speed_metrics(), once at the end, means over the whole training.
constexpr std::array kTrainer{LogName{"train_runtime", kRunTime}, LogName{"train_steps_per_second", kStepsPerSecond},
                              LogName{"train_samples_per_second", kSamplesPerSecond}};

constexpr std::array kTrainerPause{LogName{"eval_runtime", kPause}};

constexpr std::array kForms{
    LogForm{"Megatron-LM", "elapsed time per iteration (", "iteration", kMegatron},
    LogForm{"nanotron", " elapsed_time_per_iteration_ms", "tokens_per_sec", kMegatron},
    LogForm{"nanotron", " time_per_iteration_ms", "iteration", kNanotron},
    LogForm{"Megatron-LM", "elapsed_time_per_iteration_ms", "iteration", kMegatron},
    LogForm{"NeMo", "train_step_timing in s", "", kNemo},
    LogForm{"torchtitan", "tps:", "memory:", kTorchtitan},
    LogForm{"torchtitan", "wps:", "memory:", kTorchtitan},
    LogForm{"Composer", "[batch=", "", kComposer, LogSpan::kSinceLast, false, true},
    LogForm{"DeepSpeed", "iter time (s)", "samples/sec", kDeepspeedPipeline},
    LogForm{"DeepSpeed", ", RunningAvgSamplesPerSec=", "CurrSamplesPerSec", kDeepspeedCurrent, LogSpan::kOne, true},
    LogForm{"DeepSpeed", ", SamplesPerSec=", "", kDeepspeedAverage, LogSpan::kAllSoFar, true},
    LogForm{"scripts that print samples/sec of all GPUs", "samples/sec", "", kSamplesPerSec},
    LogForm{"Hugging Face Trainer", "train_runtime", "", kTrainer, LogSpan::kAllSoFar},
    LogForm{"Hugging Face Trainer", "train_steps_per_second", "", kTrainer, LogSpan::kAllSoFar},
    LogForm{"Hugging Face Trainer", "eval_runtime", "", kTrainerPause}};

constexpr std::array kFactNames{LogName{"using world size", kGpus},
                                LogName{"world_size", kGpus},
                                LogName{"global_batch_size", kBatch},
                                LogName{"global_train_batch_size", kBatch},
                                LogName{"train_batch_size", kBatch},
                                LogName{"global batch size", kBatch},
                                LogName{"Total train batch size (w. parallel, distributed & accumulation)", kBatch},
                                LogName{"seq_length", kSequence},
                                LogName{"seq_len", kSequence},
                                LogName{"max_seq_len", kSequence},
                                LogName{"sequence_length", kSequence},
                                LogName{"sequence length", kSequence},
                                LogName{"num_nodes", kNodes},
                                LogName{"num_gpus_per_node", kGpusPerNode}};

/// torchtitan's ParallelDims; of its names those that it has are multiplied.
constexpr std::array kMeshNames{LogName{"pp", kGpusFactor}, LogName{"dp_replicate", kGpusFactor},
                                LogName{"dp_shard", kGpusFactor}, LogName{"cp", kGpusFactor},
                                LogName{"tp", kGpusFactor}};

constexpr std::array kFacts{LogForm{"", "device mesh with parallelism:", "", kMeshNames},
                            LogForm{"", "", "", kFactNames}};

/// Metrics that are kept by name, and the dates that tables have beside them.
constexpr std::array kMetrics{
    LogName{"step", kStep},
    LogName{"_step", kStep},
    LogName{"global_step", kStep},
    LogName{"trainer/global_step", kStep},
    LogName{"iteration", kStep},
    LogName{"device|batches_per_sec", kStepsPerSecond},  // Lightning's ThroughputMonitor: all GPUs step together
    LogName{"device/batches_per_sec", kStepsPerSecond},
    LogName{"device|samples_per_sec", kSamplesPerSecondPerGpu},
    LogName{"device/samples_per_sec", kSamplesPerSecondPerGpu},
    LogName{"throughput/batches_per_sec", kStepsPerSecond},
    LogName{"throughput/samples_per_sec", kSamplesPerSecond},
    LogName{"throughput/device/samples_per_sec", kSamplesPerSecondPerGpu},
    LogName{"throughput/tokens_per_sec", kTokensPerSecond},
    LogName{"throughput/device/tokens_per_sec", kTokensPerSecondPerGpu},
    LogName{"train_step_timing in s", kStepTime},  // NeMo
    LogName{"iteration-time", kStepTime},          // Megatron-LM
    LogName{"iteration-time/iteration-time", kStepTime},
    LogName{"batch-size", kBatch},
    LogName{"batch-size/batch-size", kBatch},
    LogName{"global_batch_size", kBatch},
    LogName{"consumed_samples", kSamples},
    LogName{"throughput(tps)", kTokensPerSecondPerGpu},  // torchtitan
    LogName{"time_metrics/end_to_end(s)", kStepTime},
    LogName{"step_time_s", kStepTime},
    LogName{"step_time_ms", kStepTime, kMilli},
    LogName{"steps_per_sec", kStepsPerSecond},
    LogName{"steps_per_second", kStepsPerSecond},
    LogName{"samples_per_sec", kSamplesPerSecond},
    LogName{"samples_per_second", kSamplesPerSecond},
    LogName{"tokens_per_sec", kTokensPerSecond},
    LogName{"tokens_per_second", kTokensPerSecond},
    LogName{"train|time", kElapsed},  // of ThroughputMonitor, since its beginning
    LogName{"train/time", kElapsed},
    LogName{"wall_time", kElapsed},
    LogName{"timestamp", kElapsed},
    LogName{"created_at", kElapsed},
    LogName{"elapsed_s", kElapsed},
    LogName{"_runtime", kElapsed},  // Weights & Biases
    LogName{"_timestamp", kElapsed}};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

std::span<const LogForm> log_forms() { return kForms; }

std::span<const LogForm> log_facts() { return kFacts; }

const LogName* find_metric(std::string_view name) {
  const auto find = [&] {
    const auto found = std::ranges::find(kMetrics, name, &LogName::name);
    return found == kMetrics.end() ? nullptr : &*found;
  };
  if (const LogName* found = find()) return found;
  for (const std::string_view prefix : {"train/", "train|", "Train ", "Train/"})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      return find();
    }
  return nullptr;
}

bool is_of_evaluation(std::string_view name) {
  std::string word;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && std::isalpha(static_cast<unsigned char>(name[i])) != 0) {
      if (word.size() < 16) word += lower(name[i]);
      continue;
    }
    for (const std::string_view known : {"val", "valid", "validation", "validate", "eval", "evaluation", "test"})
      if (word == known) return true;
    word.clear();
  }
  return false;
}

}  // namespace rehearse
