#include "calibration/job_log.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "calibration/detail/logged_steps.hpp"
#include "calibration/study.hpp"
#include "sim/base/files.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const std::string kJobLogs = source_folder() + "/calibration/data/own-examples/logs/";

Measurements job_log(const std::string& text,
                     const JobLogOptions& options = {.skip_steps = 0, .batch = {}, .gpus = {}, .sequence_length = {}}) {
  return parse_job_log(text, "x.log", options);
}

std::string log_refusal(const std::string& text, const JobLogOptions& options = {
                                                     .skip_steps = 0, .batch = {}, .gpus = {}, .sequence_length = {}}) {
  return test::error_of([&] { (void)job_log(text, options); });
}

/// The only row, whose table is kept.
CsvRow row_of(const Measurements& log) {
  static std::deque<CsvTable> tables;
  tables.push_back(log.table);
  REQUIRE(tables.back().row_count() == 1);
  return tables.back().row(0);
}

std::string iteration(int step, double ms, const std::string& rest = "") {
  return " iteration " + std::to_string(step) + "/ 500 | elapsed time per iteration (ms): " + CsvField{ms}.text() +
         " | " + rest + "\n";
}

}  // namespace

TEST_CASE("the example of each framework says the same: 1.1546 s a step, 48 samples, the first ten steps left out") {
  for (const char* file : {"megatron.log", "deepspeed.log", "composer.log", "nanotron.log", "torchtitan.log",
                           "metrics.csv", "trainer_state.json", "events.out.tfevents"}) {
    CAPTURE(file);
    const Measurements log = load_job_logs(kJobLogs + file, {});
    const CsvRow row = row_of(log);
    // nanotron prints three digits: 1.15K ms; 85.2K tokens/s
    CHECK(row.number("step_time_s") == doctest::Approx(1.1546).epsilon(5e-3));
    if (file != std::string{"events.out.tfevents"} && file != std::string{"metrics.csv"}) {
      CHECK(row.number("batch") == 48);
      CHECK(row.number("samples_per_s") == doctest::Approx(48 / 1.1546).epsilon(5e-3));
    }
    CHECK(row.number("steps_per_s") == doctest::Approx(1 / row.number("step_time_s")));
    CHECK_FALSE(log.remarks.empty());
  }
}

TEST_CASE("Megatron-LM's lines of all versions, and of those who changed it") {
  CHECK(row_of(job_log(iteration(100, 779.6, "learning rate 1.500E-04 | lm loss 9.35E+00 |"))).number("step_time_s") ==
        doctest::Approx(0.7796));
  const CsvRow megatron = row_of(job_log(
      "using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 2, pipeline-model-parallel size: 2\n"
      "  seq_length ...................................... 2048\n"
      "[default15]: [2024-05-20 12:00:00] iteration      100/  500000 | consumed samples:         1600 | elapsed time "
      "per "
      "iteration (ms): 606.8 | throughput per GPU (TFLOP/s/GPU): 130.1 | learning rate: 1.500E-04 | global batch size: "
      "  "
      " 16 | lm loss: 9.5E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"));
  CHECK(megatron.text("framework") == "Megatron-LM");
  CHECK(megatron.number("gpus") == 16);
  CHECK(megatron.number("batch") == 16);
  CHECK(megatron.number("sequence_length") == 2048);
  CHECK(megatron.number("step_time_s") == doctest::Approx(0.6068));
  CHECK(megatron.number("tokens_per_s") == doctest::Approx(16 * 2048 / 0.6068));
  CHECK(megatron.number("last_step") == 100);
  // Megatron-DeepSpeed in seconds, MindSpeed with its misspelt batch, NeoX with samples/sec before the iteration.
  CHECK(row_of(
            job_log(
                "[default3]: iteration       10/  292968 | consumed samples:        10240 | elapsed time per iteration "
                "(s): 35.8651 | global batch size:  1024 | samples per second: 28.551 | TFLOPs: 199.03 |\n"))
            .number("step_time_s") == doctest::Approx(35.8651));
  CHECK(row_of(job_log(iteration(11, 52728.1, "gloabl batch size:  512 | lm loss:  1.3E+01 |"))).number("batch") ==
        512);
  CHECK(row_of(
            job_log(" samples/sec: 51.234 | iteration       10/      50 | elapsed time per iteration (ms): 9876.5 |\n"))
            .number("samples_per_s") == doctest::Approx(51.234));
  CHECK(row_of(job_log("iteration=  8/ 9 | consumed_samples= 64 | elapsed_time_per_iteration_ms=606.5 | "
                       "global_batch_size=    8 |\n"))
            .number("step_time_s") == doctest::Approx(0.6065));
}

TEST_CASE("the first steps are left out, and means over several steps with one of them") {
  std::string log;
  for (int step = 5; step <= 40; step += 5) log += iteration(step, step <= 10 ? 9000 : 1000 + step);
  const Measurements kept = job_log(log, {});
  CHECK(row_of(kept).integer("first_step") == 11);
  CHECK(row_of(kept).integer("entries") == 6);
  CHECK(row_of(kept).number("step_time_s") == doctest::Approx(1.0275));  // median of 1015, 1020, ..., 1040 ms
  CHECK(kept.remarks.at(0) ==
        "x.log: log of Megatron-LM; the first 10 steps (2 lines) are left out, steps 11 to 40 count");
  CHECK(
      row_of(job_log(log, {.skip_steps = 11, .batch = {}, .gpus = {}, .sequence_length = {}})).integer("first_step") ==
      16);
  CHECK(row_of(job_log(log)).integer("first_step") == 1);
  CHECK(log_refusal(iteration(5, 10) + iteration(10, 10), {}) ==
        "x.log: expected more than the first 10 steps of the log, which are left out (\"skip_steps\" of the study's "
        "measurements, --skip-steps); found 2 lines, of steps 5 to 10");
  CHECK(log_refusal(iteration(211364, 10), {}).ends_with("; found 1 line, of step 211364"));
  // A job that goes on from step 5000 warms up, too.
  CHECK(
      row_of(job_log(iteration(5001, 9000) + iteration(5002, 1000) + iteration(5011, 1001) + iteration(5012, 1002), {}))
          .integer("first_step") == 5012);
}

TEST_CASE("each step counts once, whatever ranks print it and wherever a job begins again; pauses do not count") {
  const Measurements ranks = job_log("0: " + iteration(1, 100) + "1: " + iteration(1, 101) + "0: " + iteration(2, 100) +
                                     "1: " + iteration(2, 101) + "0: " + iteration(2, 100));
  CHECK(row_of(ranks).integer("entries") == 2);
  CHECK(row_of(ranks).number("step_time_s") == doctest::Approx(0.1));
  CHECK(ranks.remarks.back() == "x.log: 3 lines of steps that were logged before are not counted again");
  std::string log;
  for (int step = 1; step <= 20; ++step) {
    log += iteration(step, step == 10 ? 60000 : 100);  // a checkpoint
    if (step == 15)
      log +=
          " validation loss at iteration 15 | lm loss value: 7.0E+00 | lm loss PPL: 1.1E+03 |\n"
          "(min, max) time across ranks (ms): save-checkpoint: (59000.0, 59001.0)\n";
  }
  CHECK(row_of(job_log(log)).number("step_time_s") == doctest::Approx(0.1));
  CHECK(row_of(job_log(log)).number("step_time_mean_s") == doctest::Approx((19 * 0.1 + 60) / 20));
}

TEST_CASE("a batch that grows has a row each") {
  const Measurements log =
      job_log(iteration(1, 100, "global batch size: 32 |") + iteration(2, 101, "global batch size: 32 |") +
              iteration(3, 200, "global batch size: 64 |"));
  REQUIRE(log.table.row_count() == 2);
  CHECK(log.table.row(0).number("step_time_s") == doctest::Approx(0.1005));
  CHECK(log.table.row(1).number("batch") == 64);
  CHECK(log.table.row(1).number("samples_per_s") == doctest::Approx(320));
  CHECK(log.table.row(1).line() == 3);
}

TEST_CASE("DeepSpeed: the timer of old and new versions, and of pipelines") {
  const std::string newer =
      "[2023-11-07 01:55:23,711] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=4, lr=[5e-05], mom=[(0.9, "
      "0.95)]\n"
      "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, "
      "RunningAvgSamplesPerSec=25.02, CurrSamplesPerSec=25.6, MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n";
  const Measurements without = job_log(newer);
  CHECK(row_of(without).number("samples_per_s") == doctest::Approx(25.6));
  CHECK(row_of(without).integer("last_step") == 10);
  CHECK(row_of(without).text("step_time_s").empty());
  CHECK(without.missing.at("step_time_s") ==
        "x.log: it logs samples per second and not \"batch\"; state it beside \"format\" in the study's measurements");
  CHECK(row_of(job_log(newer, {.skip_steps = 0, .batch = 128, .gpus = {}, .sequence_length = {}}))
            .number("step_time_s") == doctest::Approx(5));
  CHECK(row_of(job_log("\"train_batch_size\": 256,\n" + newer)).number("step_time_s") == doctest::Approx(10));
  CHECK(row_of(job_log("[INFO] [timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=232.7, CurrSamplesPerSec=200, "
                       "MemAllocated=0.36GB\n"))
            .integer("last_step") == 20);
  // Until 0.5 a mean over all steps, whose last value counts.
  const Measurements old = job_log(
      "[INFO] [timer.py:157:stop] 0/50, SamplesPerSec=30.1\n[INFO] [timer.py:157:stop] 0/100, SamplesPerSec=39.64\n",
      {});
  CHECK(row_of(old).number("samples_per_s") == doctest::Approx(39.64));
  CHECK(old.remarks.at(0) == "x.log: DeepSpeed logs a mean over all steps, the first ones included");
  const CsvRow pipeline =
      row_of(job_log("steps: 200 loss: 5.5508 lm loss: 5.5103 iter time (s): 0.936 samples/sec: 136.706\n"));
  CHECK(pipeline.number("step_time_s") == doctest::Approx(128 / 136.706));  // more digits than 0.936
  CHECK(pipeline.number("batch") == 128);  // 136.706 * 0.936 = 127.96, and no other whole number by their digits
}

TEST_CASE("Composer's blocks: evaluations and coarse digits") {
  const std::string block =
      "[epoch=1][batch=4/5]:\n\t Train time/sample: 3072\n"
      "[epoch=1][batch=5/5]:\n"
      "         Train time/batch: 4\n         Train time/sample: 4096\n"
      "         Train throughput/batches_per_sec: 0.0027\n         Train throughput/samples_per_sec: 2.7330\n"
      "         Train throughput/device/samples_per_sec: 0.1708\n         Train throughput/tokens_per_sec: 20082.8418\n"
      "[Eval batch=3/3] Eval on eval data:\n         Eval throughput/samples_per_sec: 99\n";
  const CsvRow row = row_of(job_log("num_gpus_per_node: 8\nnum_nodes: 2\n" + block));
  CHECK(row.number("batch") == 1024);
  CHECK(row.number("gpus") == 16);
  CHECK(row.number("step_time_s") == doctest::Approx(1024 / 2.7330));  // 1 / 0.0027 has two digits
  CHECK(row.number("tokens_per_s") == doctest::Approx(20082.8418));
  CHECK(row_of(job_log(block)).number("gpus") == 16);  // 2.7330 / 0.1708
}

TEST_CASE("nanotron's suffixes: a batch in samples until it was one of tokens") {
  const CsvRow older = row_of(
      job_log("08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 15 | consumed_tokens: 512 | "
              "elapsed_time_per_iteration_ms: "
              "4.71K | tokens_per_sec: 109 | tokens_per_sec_per_gpu: 109 | global_batch_size: 2 | lm_loss: 5.32 | "
              "lr: 0.00015\n"));
  CHECK(older.text("framework") == "nanotron");
  CHECK(older.number("batch") == 2);
  CHECK(older.number("step_time_s") == doctest::Approx(4.71));
  CHECK(older.number("gpus") == 1);
  const CsvRow newer =
      row_of(job_log("12/21 01:39:51 [INFO|DP=0|TP=0|node7]: iteration: 211364 / 1500000 | consumed_tokens: 480B | "
                     "time_per_iteration_ms: "
                     "8.79K | tokens_per_sec: 182K | tokens_per_sec_per_gpu: 699 | global_batch_size: 1.6M | lm_loss: "
                     "2.04 | eta: 131 days\n"));
  CHECK(newer.text("batch").empty());
  CHECK(newer.number("step_time_s") == doctest::Approx(8.79));
  CHECK(newer.number("tokens_per_s") == doctest::Approx(182e3));
}

TEST_CASE("torchtitan: tokens per second of a GPU, thousands, colours, old names") {
  const std::string step =
      "[rank0]:2024-09-10 10:00:00,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  8.1234  \x1b[33mmemory: "
      "30.99GiB(39.16%)  \x1b[34mwps: 7,123  \x1b[35mmfu: 41.23%\x1b[39m\n";
  const std::string start =
      "Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1, etp=1\n"
      "Trainer is initialized with local batch size 8, global batch size 64, gradient accumulation steps 1, sequence "
      "length "
      "8192, total steps 1000 (warmup 200).\n";
  const CsvRow row = row_of(job_log(start + step));
  CHECK(row.number("gpus") == 16);
  CHECK(row.number("batch") == 64);
  CHECK(row.number("step_time_s") == doctest::Approx(64 * 8192 / (7123.0 * 16)));
  CHECK(log_refusal(step) ==
        "x.log: expected the speed of steps; it logs tokens per second of each GPU and not \"batch\", "
        "\"sequence_length\", "
        "\"gpus\"; state them beside \"format\" in the study's measurements");
  CHECK(row_of(job_log(step, {.skip_steps = 0, .batch = 64, .gpus = 16, .sequence_length = 8192}))
            .number("step_time_s") == doctest::Approx(64 * 8192 / (7123.0 * 16)));
}

TEST_CASE("samples so far tell the batch, of the first line too if all before had as many") {
  const auto line = [](int step, int samples) {
    return R"(DLLL {"step": 1, "data": {"global_step": )" + std::to_string(step) +
           ".0, \"consumed_samples\": " + std::to_string(samples) + ".0, \"train_step_timing in s\": 2.5}}\n";
  };
  const Measurements from_0 = job_log(line(16, 34272) + line(17, 36288));
  CHECK(from_0.table.row_count() == 1);
  CHECK(row_of(from_0).number("batch") == 2016);
  CHECK(job_log(line(17, 34272) + line(18, 36288)).table.row_count() == 1);
  CHECK(job_log(line(16, 34000) + line(17, 36016)).table.row_count() == 2);  // fewer before: the first is not known
}

TEST_CASE("the summary that Weights & Biases prints is no step") {
  const std::string summary =
      "wandb: Run summary:\nwandb:  global_step 1999999.0\nwandb:  train_step_timing in s 0.02442\n";
  CHECK(log_refusal(summary).ends_with(
      "; found the summary of a run by Weights & Biases: give its history, exported as CSV"));
  const std::string step = "global_step: 1 | train_step_timing in s: 2.5\n";
  CHECK(row_of(job_log(step + summary)).integer("entries") == 1);
  CHECK(row_of(job_log(step + "\x1b[34m\x1b[1mwandb\x1b[0m: train_step_timing in s 7\n")).number("step_time_s") == 2.5);
}

TEST_CASE("NeMo's lines and bars; scripts' own; Hugging Face's last line") {
  CHECK(row_of(job_log("Training epoch 0, iteration 1/249 | lr: 3.9e-06 | global_batch_size: 8 | global_step: 1 | "
                       "reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16\n"))
            .number("samples_per_s") == doctest::Approx(8 / 2.505));
  const CsvRow bar =
      row_of(job_log("Epoch 0: : 98%|# | 98/100 [10:40<00:06, global_step=97.00, train_step_timing in s=3.2]\r"
                     "Epoch 0: : 99%|# | 99/100 [10:44<00:03, global_step=98.00, train_step_timing in s=3.0]\r"
                     "Epoch 0: : 99%|# | 99/100 [10:44<00:03, global_step=98.00, train_step_timing in s=9.0]"));
  CHECK(bar.number("step_time_s") == doctest::Approx(3.1));
  CHECK(bar.number("last_step") == 98);
  CHECK(row_of(job_log("step 3, samples/sec: 120.5, loss 2\nstep 4, samples/sec= 121.5\n")).number("samples_per_s") ==
        doctest::Approx(121));
  const std::string trainer =
      "{'eval_loss': 2.0, 'eval_runtime': 3.2716, 'epoch': 1.0}\n"
      "{'train_runtime': 703.2716, 'train_samples_per_second': 33.52, 'train_steps_per_second': 16.76, 'train_loss': "
      "0.8}\n";
  CHECK(
      row_of(job_log("***** train metrics *****\n  train_runtime            = 0:12:03.27\n  train_steps_per_second   = "
                     "     16.76\n"))
          .number("steps_per_s") == doctest::Approx(16.76));
  const Measurements log = job_log(trainer, {});
  CHECK(row_of(log).number("batch") == 2);
  CHECK(row_of(log).number("step_time_s") == doctest::Approx(1 / 16.76 * 700 / 703.2716));
  CHECK(log.remarks.at(0) ==
        "x.log: Hugging Face Trainer logs a mean over all steps, the first ones included; evaluations are taken off, "
        "checkpoints are in it");
}

TEST_CASE("metrics by column: dates, cumulative times, rows of evaluations, and what is missing") {
  const CsvRow dates = row_of(
      job_log("epoch,step,train_loss,wall_time,val_loss\n0,49,2.1,1000,\n0,99,2.0,1005,\n0,99,,,1.9\n1,149,,1010,\n"));
  CHECK(dates.number("step_time_s") == doctest::Approx(0.1));
  CHECK(row_of(job_log("step,train|time\n1,10\n3,13\n5,16\n")).number("step_time_s") == doctest::Approx(1.5));
  CHECK(row_of(job_log("_step,_runtime,throughput/batches_per_sec\n1,10,2\n2,20,2.5\n")).number("steps_per_s") ==
        doctest::Approx(1 / 0.45));
  CHECK(log_refusal("epoch,step,train_loss,val_loss\n0,49,2.1,\n")
            .starts_with("x.log: expected a column that tells a time, such as \"train|device|batches_per_sec\" of "
                         "Lightning's ThroughputMonitor"));
  CHECK(log_refusal("epoch,step,train_loss,val_loss\n0,49,2.1,\n")
            .ends_with("CSVLogger writes none by itself; found epoch, step, train_loss, val_loss"));
  CHECK(log_refusal("step,wall_time\n1.5,3\n") ==
        "x.log:2: column \"step\": expected the number of a step; found \"1.5\"");
  CHECK(log_refusal("step,wall_time\n1,3\n") == "x.log: expected the speed of steps; found one date, which tells none");
  CHECK(log_refusal("step,wall_time\n1,3,4\n").starts_with("x.log:2: "));
}

TEST_CASE("trainer_state.json") {
  const Json end{
      {"step", 100}, {"train_runtime", 60.0}, {"train_samples_per_second", 53.333}, {"train_steps_per_second", 1.667}};
  const auto state = [](const Json& history) { return Json{{"global_step", 100}, {"log_history", history}}.dump(); };
  CHECK(row_of(job_log(state(Json::array({Json{{"step", 50}, {"eval_runtime", 10.0}}, end})))).number("step_time_s") ==
        doctest::Approx(0.5));
  CHECK(row_of(job_log(state(Json::array({end})))).number("batch") == 32);
  CHECK(log_refusal(state(Json::array({Json{{"step", 50}, {"loss", 2.0}}})))
            .starts_with("x.log: /log_history: expected an entry with \"train_runtime\""));
  Json broken = end;
  broken["train_runtime"] = -1;
  CHECK(log_refusal(state(Json::array({broken}))) ==
        "x.log: /log_history/0/train_runtime: expected a number of at least 0; found -1");
  const std::string text = state(Json::array({end}));
  CHECK(log_refusal(text.substr(0, text.size() - 3)).starts_with("x.log:1:"));
}

namespace {

std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xffU);
  return text;
}

/// A record of TFRecord with an event: a scalar of one step.
std::string event(double date, std::uint64_t step, const std::string& tag, float value) {
  const auto varint = [](std::uint64_t number) {
    std::string text;
    for (; number >= 128; number >>= 7U) text += static_cast<char>(128 | (number & 127));
    return text + static_cast<char>(number);
  };
  const auto message = [](char field, const std::string& data) {
    return std::string{static_cast<char>(field << 3 | 2)} + static_cast<char>(data.size()) + data;
  };
  const std::string scalar = message(1, tag) + "\x15" + little_endian(std::bit_cast<std::uint32_t>(value), 4);
  const std::string data = "\x09" + little_endian(std::bit_cast<std::uint64_t>(date), 8) + "\x10" + varint(step) +
                           message(5, message(1, scalar));
  const std::string length = little_endian(data.size(), 8);
  return length + little_endian(masked_crc32c(length), 4) + data + little_endian(masked_crc32c(data), 4);
}

}  // namespace

TEST_CASE("scalars of TensorBoard: known names, evaluations, samples in the place of steps") {
  const JobLogOptions all{.skip_steps = 0, .batch = {}, .gpus = {}, .sequence_length = {}};
  std::string dates, times, samples;
  for (std::uint64_t step = 10; step <= 50; step += 10) {
    const auto date = static_cast<double>(1000 + step);
    dates += event(date, step, "loss", 2);
    dates += event(date + 5, step + 5, "val/loss", 2);
    times += event(date, step, "iteration-time", 0.25F) + event(date, step, "batch-size", 64);
    samples += event(date, 2 * step, "Train/Samples/train_loss", 2);
  }
  CHECK(row_of(parse_job_log(dates, "e", all)).integer("entries") == 4);
  CHECK(row_of(parse_job_log(dates, "e", all)).number("step_time_s") == doctest::Approx(1));
  CHECK(row_of(parse_job_log(times, "e", all)).number("step_time_s") == doctest::Approx(0.25));
  CHECK(row_of(parse_job_log(times, "e", all)).number("samples_per_s") == doctest::Approx(256));
  CHECK(row_of(parse_job_log(samples, "e", all)).number("samples_per_s") == doctest::Approx(2));
  CHECK(row_of(parse_job_log(samples, "e", all)).text("step_time_s").empty());
  // Numbers beyond 1e15 are those of no step.
  constexpr std::uint64_t kLast = std::numeric_limits<std::int64_t>::max();
  CHECK(row_of(parse_job_log(times + event(2000, kLast, "iteration-time", 4), "e", all)).integer("last_step") == 50);
  CHECK(test::error_of([&] { (void)parse_job_log(event(2000, kLast, "iteration-time", 4), "e", all); }) ==
        "e: expected scalars of a training; found none");
  std::string damaged = dates;
  damaged[12 + 2] = static_cast<char>(~damaged[12 + 2]);
  CHECK(test::error_of([&] { (void)parse_job_log(damaged, "e", all); }) ==
        "e: record 1: expected the checksum of its data; the file is damaged");
}

TEST_CASE("event files of TensorBoard: dates of steps, tensors, evaluations, damage") {
  const std::string whole = read_file(kJobLogs + "events.out.tfevents", kMiB);
  const JobLogOptions all{.skip_steps = 0, .batch = {}, .gpus = {}, .sequence_length = {}};
  CHECK(row_of(parse_job_log(whole, "e", all)).integer("entries") == 39);  // 40 dates
  const Measurements cut = parse_job_log(std::string_view{whole}.substr(0, whole.size() - 7), "e", all);
  CHECK(row_of(cut).integer("last_step") == 40);  // the scalar before has its date
  CHECK(cut.remarks.at(0) == "e: its last record is cut short and left out");
  std::string damaged = whole;
  damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
  CHECK(test::error_of([&] { (void)parse_job_log(damaged, "e", all); }).find("expected the checksum of its") !=
        std::string::npos);
  CHECK(log_refusal(std::string_view{whole}.substr(0, 40).data()).starts_with("x.log: expected the log of a training"));
  CHECK(test::error_of([&] {
          (void)parse_job_log(std::string_view{whole}.substr(0, 53), "e", all);
        }).starts_with("e: expected scalars of a training; found none"));
}

TEST_CASE("what is missing is what the log does not say") {
  const Measurements log = parse_job_log(
      " iteration       11/     100 | consumed samples: 88 | elapsed time per iteration (ms): 7137.9 | global batch "
      "size: 8 | lm loss: 1.9E+00 |\n",
      "m.log", JobLogOptions{.skip_steps = 0});
  CHECK(log.table.row(0).number("batch") == 8);
  CHECK(log.missing.at("tokens_per_s") ==
        "m.log: it logs times of steps and not \"sequence_length\"; state it beside \"format\" in the study's "
        "measurements");
}

TEST_CASE("what is no log, and a log that contradicts its study") {
  CHECK(log_refusal("").ends_with("found an empty file"));
  CHECK(log_refusal("hello\n").starts_with(
      "x.log: expected the log of a training by Megatron-LM, nanotron, NeMo, torchtitan, "));
  CHECK(log_refusal("\xff\xfei\0t\0").ends_with("found text in UTF-16, which iconv -f UTF-16 -t UTF-8 converts"));
  CHECK(
      log_refusal("# gpu sm\n0 5\n").ends_with("found the output of nvidia-smi dmon, whose \"format\" is \"gpu-log\""));
  CHECK(log_refusal(iteration(1, 100, "global batch size: 64 |"),
                    {.skip_steps = 0, .batch = 32, .gpus = {}, .sequence_length = {}}) ==
        "x.log: logs 64 as batch; stated are 32");
  CHECK(log_refusal("world_size: 8\n" + iteration(1, 100),
                    {.skip_steps = 0, .batch = {}, .gpus = 16, .sequence_length = {}}) ==
        "x.log: logs 8 as gpus; stated are 16");
  // Two values are none: each of 8 processes may print its own.
  CHECK(row_of(job_log("world_size: 8\nworld_size: 1\n" + iteration(1, 100))).text("gpus").empty());
  for (const char* number : {"nan", "inf", "-5", "1e999", "12x", "", "0"})
    CHECK(log_refusal(" iteration 5/ 9 | elapsed time per iteration (ms): " + std::string{number} + " |\n") !=
          "no error");
}

TEST_CASE("a study of logs: a file, a folder of them, batch and GPUs that the scenario has not") {
  const test::TemporaryFolder folder;
  const std::string own = source_folder() + "/scenarios/studies/own/";
  Json study = load_json_file(own + "training-log.json");
  study["scenario"] = source_folder() + "/scenarios/llm-foundry-fsdp.json";
  std::filesystem::create_directory(folder.path / "logs");
  const std::string log = read_file(kJobLogs + "megatron.log", kMiB);
  const auto first = folder.write("logs/a.log", log);
  std::string other = log;
  while (other.find("global batch size:    48") != std::string::npos)
    other.replace(other.find("global batch size:    48"), 24, "global batch size:    64");
  folder.write("logs/b.log", other);
  study["measurements"] = {{"file", (folder.path / "logs").string()}, {"format", "training-log"}};
  const auto file = folder.write("study.json", study.dump());
  const Study read = load_studies(file).front();
  REQUIRE(read.rows.size() == 2);
  CHECK(read.rows[0].row.text("file") == "a.log");
  CHECK(read.remarks.size() == 2);
  const Catalog catalog{{{source_folder() + "/platforms/catalog", source_folder() + "/workloads/models",
                          source_folder() + "/calibration/profiles"}}};
  CHECK(test::error_of([&] { (void)read_row(read.rows[0], "x", catalog); }) == "no error");
  CHECK(test::error_of([&] { (void)read_row(read.rows[1], "x", catalog); }) ==
        "the log is of a training with 64 samples in a step, the scenario has 48");
  study["measurements"]["skip_steps"] = 40;
  folder.write("study.json", study.dump());
  CHECK(test::error_of([&] { (void)load_studies(file); }).find("expected more than the first 40 steps") !=
        std::string::npos);
  study["measurements"]["skip_steps"] = -1;
  folder.write("study.json", study.dump());
  CHECK(test::error_of([&] {
          (void)load_studies(file);
        }).ends_with("/measurements/skip_steps: expected 0 to 1000000000 steps; found -1"));
}

}  // namespace rehearse
