// The published forms of traces, and lines that tell what is wrong with changed ones.

#include "sim/queue/job_trace.hpp"

#include <doctest/doctest.h>

#include "sim/queue/speed_table.hpp"
#include "tests/support/error_of.hpp"

namespace rehearse {

namespace {

std::string refusal(const std::string& form, const std::string& text) {
  return test::error_of([&] { read_job_trace(form, text, "t"); });
}

const std::string kGavel = "LM (batch size 80)\tpython main.py\tlanguage\t--steps\t1\t148496\t2\t1\t-1.000000\t536\n";
const std::string kPollux = "name,time,application,num_replicas,batch_size\ncifar10-0,53,cifar10,6,2048\n";

std::string philly(const std::string& attempt, const std::string& submitted = R"("2017-10-07 01:00:00")") {
  return R"([{"jobid":"a","status":"Pass","vc":"v","user":"u","submitted_time":)" + submitted + R"(,"attempts":[)" +
         attempt + "]}]";
}
const std::string kAttempt =
    R"({"start_time":"2017-10-07 01:10:00","end_time":"2017-10-07 02:10:00","detail":[{"ip":"m1","gpus":["g0","g1"]},{"ip":"m2","gpus":["g5"]}]})";

}  // namespace

TEST_CASE("Gavel's lines, with the working directory or without") {
  const JobTrace trace =
      read_job_trace("gavel", kGavel + "A3C\tpython3 main.py\t--max-steps\t0\t10\t1\t5.0\t-1\t0.5\n", "t");
  REQUIRE(trace.jobs.size() == 2);
  CHECK(trace.jobs[0].type == "A3C");  // by arrival
  CHECK(trace.jobs[0].weight == 5);
  CHECK(trace.jobs[1].name == "0");
  CHECK(trace.jobs[1].type == "LM (batch size 80)");
  CHECK(trace.jobs[1].arrival == 536.0_s);
  CHECK(trace.jobs[1].gpus == 2);
  CHECK(trace.jobs[1].steps == 148496);
  CHECK(trace.jobs[1].place == "t:1");
  CHECK(
      refusal("gavel", "LM\tpython\n") ==
      "t:1: expected 9 or 10 columns between tabs: job type, command, (working directory,) steps argument, needs data, "
      "steps, GPUs, weight, SLO, arrival; found 2");
  CHECK(refusal("gavel", kGavel + "LM\tc\ta\t1\t1.5\t2\t1\t-1\t0\n") == "t:2: expected 1 to 1e15 steps; found \"1.5\"");
  CHECK(refusal("gavel", "LM\tc\ta\t1\t15\t0\t1\t-1\t0\n") == "t:1: expected 1 to 1000000 GPUs; found \"0\"");
  CHECK(refusal("gavel", "LM\tc\ta\t1\t15\t1\t1\t-1\t-3\n") ==
        "t:1: expected an arrival from 0 to 1e9 seconds; found \"-3\"");
  CHECK(refusal("gavel", "\n") == "t: expected a job that has run on GPUs; found none");
  CHECK(refusal("gavel", "\xff") == "t: expected text in UTF-8; found another byte at 0");
}

TEST_CASE("Pollux's workloads: the type is application and batch") {
  const JobTrace trace = read_job_trace("pollux", kPollux, "t");
  CHECK(trace.jobs[0].type == "cifar10 2048");
  CHECK(trace.jobs[0].gpus == 6);
  CHECK(!trace.jobs[0].steps);
  CHECK(refusal("pollux", "name,time\na,1\n") == "t: expected a column \"batch_size\"; found \"name\" and \"time\"");
  CHECK(refusal("pollux", "name,time,application,num_replicas,batch_size\na,x,b,1,1\n") ==
        "t:2: column \"time\": expected a number; found \"x\"");
  CHECK(refusal("pollux", "name,time,application,num_replicas,batch_size\na,1,b,0,1\n") ==
        "t:2: column \"num_replicas\": expected 1 to 1000000 GPUs");
}

TEST_CASE("Pollux's workloads of elastic jobs: the type is the application alone") {
  const JobTrace trace = read_job_trace("pollux_elastic", kPollux, "t");
  const JobTrace fixed = read_job_trace("pollux", kPollux, "t");
  REQUIRE(trace.jobs.size() == fixed.jobs.size());
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    CHECK(fixed.jobs[i].type.starts_with(trace.jobs[i].type + " "));
    CHECK(trace.jobs[i].gpus == fixed.jobs[i].gpus);
    CHECK(trace.jobs[i].is_elastic);
    CHECK(!fixed.jobs[i].is_elastic);
  }
}

TEST_CASE("Philly's log: all attempts take their time, on the GPUs of the last; who never ran is left out") {
  const std::string earlier =
      R"({"start_time":"2017-10-07 01:01:00","end_time":"2017-10-07 01:02:00","detail":[{"ip":"m1","gpus":["g0"]}]})";
  const JobTrace trace = read_job_trace("philly", philly(earlier + "," + kAttempt), "t");
  CHECK(trace.jobs[0].gpus == 3);
  CHECK(*trace.jobs[0].duration == 3660.0_s);
  CHECK(trace.jobs[0].arrival == 0.0_s);
  CHECK(refusal("philly", philly("")) == "t: expected a job that has run on GPUs; found none among 1");
  CHECK(refusal("philly", philly(kAttempt, "5")) == "t: /0/submitted_time: expected a string; found 5");
  CHECK(refusal("philly", philly(kAttempt, R"("yesterday")")) ==
        "t: /0/submitted_time: expected a time in UTC, such as \"2020-03-15T10:09:42Z\"; found \"yesterday\"");
  CHECK(refusal("philly", "{}") == "t: expected an array of jobs; found an empty object");
}

TEST_CASE("Alibaba's tasks, with a header or without: percents of GPUs add up") {
  const std::string row = "a,worker,3,Terminated,100.0,160.5,600.0,29.3,50.0,T4\n";
  const JobTrace trace = read_job_trace("alibaba", row + "b,ps,1,Terminated,90.0,,600.0,29.3,,\n", "t");
  CHECK(trace.jobs.size() == 1);
  CHECK(trace.left_out == 1);
  CHECK(trace.jobs[0].name == "a/worker");
  CHECK(trace.jobs[0].gpus == 2);
  CHECK(*trace.jobs[0].duration == 60.5_s);
  const std::string header =
      "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n";
  CHECK(read_job_trace("alibaba", header + row, "t").jobs[0].duration == trace.jobs[0].duration);
  CHECK(refusal("alibaba", header + "a,w,x,T,1,2,3,4,100,T4\n") ==
        "t:2: column \"inst_num\": expected a number; found \"x\"");
}

TEST_CASE("own lists state a duration, or type and steps") {
  const JobTrace trace =
      read_job_trace("csv", "name,arrival_s,gpus,duration_s,type,steps\na,5,1,10,,\nb,1,2,,resnet,100\n", "t");
  CHECK(trace.jobs[0].name == "b");
  CHECK(trace.jobs[0].steps == 100);
  CHECK(*trace.jobs[1].duration == 10.0_s);
  CHECK(refusal("csv", "name,arrival_s,gpus,duration_s\na,5,1,0\n") ==
        "t:2: column \"duration_s\": expected a duration above 0");
  CHECK(refusal("cvs", "") == "unknown form of a trace \"cvs\"; did you mean \"csv\"?");
}

TEST_CASE("tables of speeds: the nearest number of machines, any number, and what is wrong") {
  const auto table = [](const std::string& rows) {
    return SpeedTable{parse_csv("type,gpu,gpus,machines,steps_per_s,steps,samples_per_step\n" + rows, "s")};
  };
  const SpeedTable speeds = table("a,V100,8,2,4,100,256\na,V100,8,4,3,,\nb,V100,8,,5,,\nb,V100,8,1,6,,\n");
  CHECK(speeds.speed("a", "V100", 8, 1) == 4.0);
  CHECK(speeds.speed("a", "V100", 8, 3) == 3.0);
  CHECK(speeds.speed("a", "V100", 8, 9) == 3.0);
  CHECK(speeds.speed("b", "V100", 8, 1) == 6.0);
  CHECK(speeds.speed("b", "V100", 8, 2) == 5.0);
  CHECK(!speeds.speed("a", "V100", 4, 1));
  CHECK(!speeds.speed("a", "A100", 8, 1));
  CHECK(speeds.states("a", "V100", 8, 4));
  CHECK(!speeds.states("a", "V100", 8, 3));
  CHECK(speeds.states("b", "V100", 8, 3));
  CHECK(speeds.steps("a") == 100);
  CHECK(!speeds.steps("b"));
  CHECK(speeds.samples_per_step("a", 8) == 256);
  const auto refused = [&](const std::string& rows) { return test::error_of([&] { table(rows); }); };
  CHECK(refused("a,V,1,,-1,,\n") == "s:2: column \"steps_per_s\": expected a speed from 0 to 1e12");
  CHECK(refused("a,V,1,,1,,\na,V,1,,2,,\n") ==
        "s:3: column \"type\": expected each type, gpu, gpus and machines once; found it in an earlier row, too");
  CHECK(refused("a,V,1,,1,5,\na,V,2,,2,6,\n") ==
        "s:3: column \"steps\": expected the same number in all rows of the type");
}

}  // namespace rehearse
