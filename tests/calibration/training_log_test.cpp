#include "calibration/training_log.hpp"

#include <doctest/doctest.h>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

std::string problem_of(const std::string& pattern) {
  try {
    (void)LinePattern{pattern, "study.json: /logs/0/line"};
  } catch (const InputError& error) { return error.what(); }
  return {};
}

WorkerLog read(const std::string& text, const std::string& pattern, int steps_per_entry = 1) {
  WorkerLog log{.cluster = "c", .worker = "w", .instance = "i", .batch = 1, .entries = {}};
  parse_log_text(text, "w.log", LinePattern{pattern, "line"}, steps_per_entry, log);
  return log;
}

std::string table_problem(const std::string& rows) {
  try {
    (void)parse_log_table("cluster,worker,instance,gpus,batch,step,seconds_per_batch,loss\n" + rows, "logs.csv");
  } catch (const InputError& error) { return error.what(); }
  return {};
}

}  // namespace

TEST_CASE("lines of TensorFlow: the time between two entries is shared by the steps between them") {
  const WorkerLog log = read(
      "INFO:tensorflow:loss = 4.605, step = 0\n"
      "INFO:tensorflow:global_step/sec: 4.5\n"
      "INFO:tensorflow:loss = 2.3, step = 100 (20.1 sec)\r\n"
      "INFO:tensorflow:loss = 1.1, step = 300 (44 sec)\n",
      "loss = {loss}, step = {step} ({elapsed_s} sec)");
  REQUIRE(log.entries.size() == 2);
  CHECK(log.entries[0].step == 100);
  CHECK(log.entries[0].loss == 2.3);
  CHECK_FALSE(log.entries[0].seconds_per_batch);  // since when?
  CHECK(log.entries[1].seconds_per_batch == doctest::Approx(0.22));
}

TEST_CASE("lines of Keras and PyTorch") {
  const WorkerLog keras = read("12/390 [>......] - ETA: 20s - loss: 4.5\r390/390 [===] - 20s 51ms/step - loss: 3.25\n",
                               "{ms_per_batch}ms/step - loss: {loss}", 390);
  REQUIRE(keras.entries.size() == 1);
  CHECK(keras.entries[0].step == 390);
  CHECK(keras.entries[0].seconds_per_batch == doctest::Approx(0.051));
  CHECK(keras.entries[0].loss == 3.25);
  const WorkerLog torch = read("Epoch: [0][ 10/5005]\tTime  0.312 ( 0.401)\tData  0.001\tLoss 6.9e+00 (7.0)\n",
                               "][ {step}/{*} Time {seconds_per_batch} {*} Loss {loss}");
  REQUIRE(torch.entries.size() == 1);
  CHECK(torch.entries[0].step == 10);
  CHECK(torch.entries[0].seconds_per_batch == doctest::Approx(0.312));
  CHECK(torch.entries[0].loss == doctest::Approx(6.9));
  CHECK(read("speed 4 batches/s\nspeed 5 batches/s", "{batches_per_s} batches/s").entries[1].seconds_per_batch == 0.2);
}

TEST_CASE("a number is taken whole") { CHECK(read("step 12 loss 3", "{step} loss {loss}").entries[0].step == 12); }

TEST_CASE("patterns without sense are refused") {
  CHECK(problem_of("loss = {los}") == "study.json: /logs/0/line: unknown field \"los\"; did you mean \"loss\"?");
  CHECK(problem_of("step = {step}") == "study.json: /logs/0/line: expected a field with a time or {loss}; found none");
  CHECK(problem_of("{loss} {loss}") == "study.json: /logs/0/line: expected {loss} once; found it twice");
  CHECK(problem_of("loss = {loss") == "study.json: /logs/0/line: expected a } after {");
  CHECK_THROWS_WITH_AS(read("nothing here\n", "loss {loss}"), "w.log: no line matches the pattern", InputError);
  CHECK_THROWS_WITH_AS(read("\nloss -1\n", "loss {loss}"), "w.log:2: loss is out of range", InputError);
  for (const char* number : {"-1", "0", "1e-310", "1e300"})  // none has an inverse that is a time
    CHECK_THROWS_WITH_AS(read(std::string{number} + " batches/s\n", "{batches_per_s} batches/s"),
                         "w.log:1: batches_per_s is out of range", InputError);
}

TEST_CASE("a table of logs is split into workers") {
  const auto logs = parse_log_table(
      "cluster,worker,instance,gpus,batch,step,seconds_per_batch,loss,exchanged_B,exchange_s\n"
      "a,0,p3.2xlarge,1,64,1,0.5,4.5,200,0.1\n"
      "a,1,g3.8xlarge,2,128,2,,,,\n"
      "a,0,p3.2xlarge,1,64,3,0.6,,,\n",
      "logs.csv");
  REQUIRE(logs.size() == 2);
  CHECK(logs[0].entries.size() == 2);
  CHECK(logs[0].entries[0].exchanged_bytes == 200);
  CHECK(logs[1].gpus == 2);
  CHECK_FALSE(logs[1].entries[0].seconds_per_batch);
  CHECK(table_problem("a,0,x,1,64,1,0.5,\na,0,y,1,64,2,0.5,\n") ==
        "logs.csv:3: column \"instance\": this worker had another instance, gpus or batch before");
  for (const char* seconds : {"0", "1e-310"})
    CHECK(table_problem("a,0,x,1,64,1," + std::string{seconds} + ",\n") ==
          "logs.csv:2: column \"seconds_per_batch\": expected at least 1e-9 s");
  CHECK(table_problem("a,0,x,0,64,1,0.5,\n") == "logs.csv:2: column \"gpus\": expected 1 to 64");
}

}  // namespace rehearse
