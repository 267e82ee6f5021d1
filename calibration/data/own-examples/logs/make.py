#!/usr/bin/env python3
"""Writes the example logs of this folder: make.py. Steps of MPT-7B on 8 H100, 48 samples of 2048 tokens each, take what
../../llm-foundry-fsdp/throughput.csv says (1.1546 s), the first ones longer, one with a checkpoint; lines are as the
frameworks print them."""

import json
import pathlib
import struct

STEP, BATCH, GPUS, SEQUENCE = 1.1546, 48, 8, 2048
HERE = pathlib.Path(__file__).parent


def seconds(step):
    """Of one step: compilation first, a pause in step 30, +-0.2 % by turns."""
    if step <= 3:
        return STEP * (9, 3, 1.4)[step - 1]
    return STEP * (1 + 0.002 * (step % 3 - 1)) + (6 if step == 30 else 0)


def mean_of(first, last):
    return sum(seconds(s) for s in range(first, last + 1)) / (last - first + 1)


def write(name, lines):
    (HERE / name).write_text("\n".join(lines) + "\n")


def megatron():
    yield f"using world size: {GPUS}, data-parallel size: {GPUS}, tensor-model-parallel size: 1, pipeline-model-parallel size: 1"
    yield f"  seq_length ...................................... {SEQUENCE}"
    for last in range(5, 41, 5):
        ms = mean_of(last - 4, last) * 1e3
        yield (f" [2024-05-20 12:00:{last:02d}] iteration {last:8d}/      40 | consumed samples: {last * BATCH:12d} | "
               f"elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 458.7 | "
               f"learning rate: 1.000000E-05 | global batch size: {BATCH:5d} | lm loss: 7.123456E+00 | loss scale: 1.0 |")
        if last == 20:
            yield " validation loss at iteration 20 | lm loss value: 7.0E+00 | lm loss PPL: 1.1E+03 |"


def deepspeed():
    yield f"[2024-05-20 12:00:00,000] [INFO] [config.py:1000:print]   train_batch_size ............. {BATCH}"
    yield f"[2024-05-20 12:00:00,000] [INFO] [config.py:1000:print]   world_size ................... {GPUS}"
    spent = 0
    for step in range(1, 41):
        spent += seconds(step)
        if step % 2 == 0:
            yield f"[2024-05-20 12:00:{step:02d},100] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[1e-05]"
            yield (f"[2024-05-20 12:00:{step:02d},101] [INFO] [timer.py:260:stop] epoch=0/micro_step={step}/global_step={step}, "
                   f"RunningAvgSamplesPerSec={step * BATCH / spent}, CurrSamplesPerSec={BATCH / seconds(step)}, "
                   "MemAllocated=13.5GB, MaxMemAllocated=61.2GB")


def composer():
    yield "num_gpus_per_node: 8"
    yield "num_nodes: 1"
    yield f"max_seq_len: {SEQUENCE}"
    for step in range(1, 41):
        rate = 1 / seconds(step)
        yield f"[epoch=1][batch={step}/40]:"
        yield f"\t Train time/batch: {step - 1}"
        yield f"\t Train time/sample: {(step - 1) * BATCH}"
        yield "\t Train loss/train/total: 7.1234"
        yield f"\t Train throughput/batches_per_sec: {rate:.4f}"
        yield f"\t Train throughput/samples_per_sec: {rate * BATCH:.4f}"
        yield f"\t Train throughput/device/samples_per_sec: {rate * BATCH / GPUS:.4f}"
        if step == 20:
            yield "[Eval batch=1/1] Eval on eval data:"
            yield "\t Eval metrics/eval/LanguageCrossEntropy: 7.0000"


def thousands(value):
    return f"{value / 1e3:.3g}K" if value >= 1e3 else f"{value:.3g}"


def nanotron():
    yield f"05/20/2024 12:00:00 [INFO|DP=0|PP=0|TP=0]:  sequence_length={SEQUENCE},"
    for step in range(1, 41):
        tokens = BATCH * SEQUENCE
        for rank in range(2):  # both print each line
            yield (f"[default{rank}]:05/20/2024 12:00:{step:02d} [INFO|DP={rank}|PP=0|TP=0|node-1]: iteration: {step} / 40 | "
                   f"consumed_tokens: {thousands(step * tokens)} | time_per_iteration_ms: {thousands(seconds(step) * 1e3)} | "
                   f"tokens_per_sec: {thousands(tokens / seconds(step))} | "
                   f"tokens_per_sec_per_gpu: {thousands(tokens / seconds(step) / GPUS)} | global_batch_size: {thousands(tokens)} | "
                   "lm_loss: 7.12 | lr: 1e-05 | model_tflops_per_gpu: 459")


def torchtitan():
    yield ("[rank0]:[titan] 2024-05-20 12:00:00,000 - root - INFO - Building device mesh with parallelism: pp=1, "
           "dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1, etp=1")
    yield (f"[rank0]:[titan] 2024-05-20 12:00:00,000 - root - INFO - Trainer is initialized with local batch size "
           f"{BATCH // GPUS}, global batch size {BATCH}, gradient accumulation steps 1, sequence length {SEQUENCE}, total steps 40 (warmup 2)")
    for step in range(1, 41):
        rate = BATCH * SEQUENCE / seconds(step) / GPUS
        yield (f"[rank0]:[titan] 2024-05-20 12:00:{step:02d},000 - root - INFO - \x1b[31mstep: {step:2d}  \x1b[32mloss:  7.1234  "
               f"\x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[33mmemory: 61.20GiB(77.41%)  \x1b[34mtps: {rate:,.0f}  \x1b[36mtflops: 458.70  "
               "\x1b[35mmfu: 46.38%\x1b[39m")


def lightning():
    yield "epoch,step,train_loss,train|device|batches_per_sec,train|device|samples_per_sec,val_loss"
    for step in range(1, 41):
        yield f"0,{step - 1},7.1234,{1 / seconds(step)},{BATCH / GPUS / seconds(step)},"
        if step == 20:
            yield f"0,{step - 1},,,,7.0"


def trainer_state():
    steps, evaluation = 1000, 12.5
    runtime = round(steps * STEP + evaluation, 4)
    return {"best_metric": None, "epoch": 1.0, "global_step": steps, "log_history": [
        {"epoch": 0.5, "grad_norm": 1.2, "learning_rate": 1e-05, "loss": 7.1, "step": 500},
        {"epoch": 0.5, "eval_loss": 7.0, "eval_runtime": evaluation, "eval_samples_per_second": 82.0, "step": 500},
        {"epoch": 1.0, "step": steps, "total_flos": 1e20, "train_loss": 7.1, "train_runtime": runtime,
         "train_samples_per_second": round(steps * BATCH / runtime, 3), "train_steps_per_second": round(steps / runtime, 3)}],
        "logging_steps": 500, "max_steps": steps, "train_batch_size": BATCH // GPUS}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def varint(number):
    out = b""
    while True:
        out += bytes([number & 127 | (128 if number > 127 else 0)])
        number >>= 7
        if not number:
            return out


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(date, step, summary):
    event = b"\x09" + struct.pack("<d", date) + b"\x10" + varint(step) + summary
    length = struct.pack("<Q", len(event))
    return length + masked(length) + event + masked(event)


def event_file():
    """Two scalars a step: one as simple_value, as PyTorch writes it, one as a tensor, as TensorFlow 2 does."""
    out, date = record(1.7e9, 0, message(3, b"brain.Event:2")), 1.7e9
    for step in range(1, 41):
        date += seconds(step)
        loss = message(1, b"train/loss") + b"\x15" + struct.pack("<f", 7.1)
        tensor = message(1, b"train/grad_norm") + message(8, b"\x08\x01\x12\x00" + message(4, struct.pack("<f", 1.2)))
        out += record(date, step, message(5, message(1, loss))) + record(date + 0.01, step, message(5, message(1, tensor)))
        if step == 20:
            value = message(1, b"val/loss") + b"\x15" + struct.pack("<f", 7.0)
            out += record(date + 0.5, step, message(5, message(1, value)))
    return out


def monitored():
    """Seconds of two GPUs: idle before and after 30 s of training."""
    for second in range(40):
        for gpu in range(2):
            busy = 4 <= second < 34
            yield second, gpu, (97 if second % 3 else 94) if busy else 0, 58 if busy else 0, 64021 if busy else 4, 652.4 if busy else 71.2


def dmon():
    yield "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec     fb   bar1   mclk   pclk"
    yield "# Idx      W      C      C      %      %      %      %     MB     MB    MHz    MHz"
    for _, gpu, busy, memory, used, power in monitored():
        yield f"{gpu:5d} {power:6.0f}     61     70 {busy:6d} {memory:6d}      0      0 {used:6d}      3   2619   1755"


def query():
    yield "timestamp, index, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], power.draw [W], clocks.sm [MHz]"
    for second, gpu, busy, memory, used, power in monitored():
        yield (f"2024/05/20 12:00:{second:02d}.123, {gpu}, NVIDIA H100 80GB HBM3, {busy} %, {memory} %, {used} MiB, "
               f"{power:.2f} W, 1755 MHz")


def dcgm():
    for second, gpu, busy, memory, used, power in monitored():
        if second % 20 == 0 and gpu == 0:
            yield "#Entity   GPUTL  MCUTL   FBUSD   POWER    GRACT   SMACT   DRAMA"
            yield "ID                                  W                          "
        yield f"GPU {gpu}     {busy:3d}    {memory:3d}    {used:5d}   {power:.3f}  {busy / 100:.3f}   {busy / 130:.3f}   {memory / 110:.3f}"


write("megatron.log", megatron())
write("deepspeed.log", deepspeed())
write("composer.log", composer())
write("nanotron.log", nanotron())
write("torchtitan.log", torchtitan())
write("metrics.csv", lightning())
(HERE / "trainer_state.json").write_text(json.dumps(trainer_state(), indent=2) + "\n")
(HERE / "events.out.tfevents").write_bytes(event_file())
write("dmon.log", dmon())
write("query-gpu.csv", query())
write("dcgmi.log", dcgm())
