#!/usr/bin/env python3
"""Writes steps.csv and steps_not_fitted.csv: training on one GPU, from the tables of the folders beside this one.

    calibration/data/one-gpu-steps/make.py        # rewrites both; README.md says what is left out
"""

import csv
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["source", "line", "machine", "gpu", "architecture", "framework", "model", "workload", "precision", "batch",
           "accumulation", "samples_per_s"]
ARCHITECTURES = {"K80": "Kepler", "M40": "Maxwell", "M60": "Maxwell", "P100 SXM2": "Pascal", "V100 SXM2 32GB": "Volta",
                 "P100": "Pascal", "Quadro RTX 8000": "Turing", "A100": "Ampere", "A100 80GB": "Ampere", "A100 PCIe": "Ampere",
                 "A100 80GB PCIe": "Ampere", "A10": "Ampere", "RTX A6000": "Ampere", "RTX 3090": "Ampere",
                 "RTX 4090": "Ada", "RTX 6000 Ada": "Ada", "H100": "Hopper", "H100 PCIe": "Hopper"}
# Workload of the catalog: the model that is left out together, whatever the length of its sequences.
MODELS = {"resnet50": "ResNet-50", "resnet152": "ResNet-152", "inception_v3": "Inception-v3", "vgg16": "VGG-16",
          "alexnet": "AlexNet", "mxnet/alexnet": "AlexNet", "bert_base": "BERT-Base", "bert_base_384": "BERT-Base",
          "bert_base_pretraining": "BERT-Base", "bert_large_384": "BERT-Large", "bert_large_pretraining": "BERT-Large",
          "bert_large_pretraining_512": "BERT-Large", "resnet18": "ResNet-18", "resnet18_cifar": "ResNet-18 CIFAR",
          "densenet121": "DenseNet-121"}
LEFT_OUT = ["TensorFlow BERT pre-training 128 dgx-2 32GB fp32"]
MOST_ACCUMULATION = 16  # of more, the update is less than one percent of a step


def rows_of(source, name="throughput.csv"):
    with open(HERE.parent / source / name, newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.DictReader(file), start=2):
            yield line, row


def tensorflow_2017():
    models = {"InceptionV3": "inception_v3", "ResNet-50": "resnet50", "ResNet-152": "resnet152", "AlexNet": "alexnet",
              "VGG16": "vgg16"}
    gpus = {"P100": "P100 SXM2", "K80": "K80"}
    for line, row in rows_of("tensorflow-benchmarks-2017"):
        if row["gpus"] == "1" and row["data"] == "synthetic":
            framework = "TensorFlow 1.1"
            if row["variable_update"] == "parameter_server/cpu":
                framework += " variables on host"
            yield line, row["platform"], gpus[row["gpu"]], framework, models[row["model"]], "fp32", \
                row["batch_per_gpu"], 1, row["images_per_s"]


def mxnet():
    models = {"Alexnet": "mxnet/alexnet", "Resnet 50": "resnet50"}
    gpus = {"P100": "P100 SXM2", "V100": "V100 SXM2 32GB"}
    for line, row in rows_of("mxnet-perf", "single_gpu_throughput.csv"):
        if row["kind"] == "training":
            yield line, row["date"], gpus.get(row["gpu"], row["gpu"]), "MXNet", models[row["model"]], row["precision"], \
                row["batch"], 1, row["images_per_s"]


def nvidia():
    frameworks = {"MxNet": "NGC MXNet", "PyTorch": "NGC PyTorch NHWC", "PaddlePaddle": "NGC PaddlePaddle",
                  "TensorFlow": "TensorFlow 1 XLA", "TensorFlow2": "TensorFlow 2 XLA"}
    gpus = {("V100", "16"): "V100 SXM2 32GB", ("V100", "32"): "V100 SXM2 32GB", ("A100", "40"): "A100",
            ("A100", "80"): "A100 80GB"}
    for line, row in rows_of("nvidia-deeplearningexamples"):
        if row["gpus"] != "1" or row["set_up"] in LEFT_OUT or row["set_up"].startswith("PaddlePaddle BERT pre-training"):
            continue
        workload = row["model"]
        if " 512 " in row["set_up"]:
            workload += "_512"
        elif "SQuAD" in row["set_up"]:
            workload += "_384"
        printed = row["accumulation_printed"]
        accumulation = min(MOST_ACCUMULATION, int(printed)) if printed.isdigit() else 1
        yield line, row["machine"] + " " + row["memory_GB"] + "GB", gpus[row["gpu"], row["memory_GB"]], \
            frameworks[row["framework"]], workload, "fp16" if row["precision"] == "mixed" else "fp32", \
            row["batch_per_gpu"], accumulation, row["samples_per_s"]


def dlperf():
    frameworks = {"NGC TensorFlow 1.x": "TensorFlow 1", "NGC TensorFlow 1.x w/XLA": "TensorFlow 1 XLA",
                  "TensorFlow 2.x": "TensorFlow 2"}
    models = {"ResNet50_v1.5": "resnet50", "BERT-Base": "bert_base_pretraining"}
    for line, row in rows_of("oneflow-dlperf"):
        if row["gpus"] != "1" or (row["framework"], row["precision"], row["model"]) == ("MXNet", "AMP", "ResNet50_v1.5"):
            continue
        framework = row["framework"].replace(" W/O clip", "").replace(" w/DALI", "")
        if framework == "MXNet":
            framework = "MXNet Gluon"
        yield line, "dlperf", "V100 SXM2 32GB", frameworks.get(framework, framework), models[row["model"]], \
            "fp16" if row["precision"] == "AMP" else "fp32", row["batch_per_gpu"], 1, row["samples_per_s"]


def lambda_labs():
    systems = {"Quadro RTX 8000": "Quadro RTX 8000", "LambdaCloud V100 16GB": "V100 SXM2 32GB", "RTX 3090": "RTX 3090",
               "LambdaCloud A10": "A10", "LambdaCloud A100 40GB PCIe": "A100 PCIe", "A100 80GB PCIe": "A100 80GB PCIe",
               "A100 80GB SXM4": "A100 80GB", "RTX 6000 Ada": "RTX 6000 Ada", "RTX A6000": "RTX A6000",
               "RTX 4090": "RTX 4090", "H100 80GB PCIe Gen5": "H100 PCIe",
               "LambdaCloud H100 80GB PCIe Gen5": "H100 PCIe"}
    models = {"resnet50": "resnet50", "bert_base_squad": "bert_base_384"}
    for line, row in rows_of("lambda-gpu-benchmarks"):
        if row["workload"] in models and row["gpus"] == "1":
            yield line, row["system"], systems.get(row["system"], "H100"), "NGC PyTorch", models[row["workload"]], \
                row["precision"], row["batch_per_gpu"], 1, row["throughput"]


def gavel():
    """Of the jobs on the cluster, not those that it was simulated with."""
    models = {"ResNet-50": "resnet50", "ResNet-18": "resnet18_cifar"}
    gpus = {"k80": "K80", "p100": "P100", "v100": "V100 SXM2 32GB"}
    for line, row in rows_of("gavel-throughputs"):
        if row["table"] == "physical_cluster" and row["gpus"] == "1" and row["consolidated"] == "yes" \
                and row["job"] in models:
            yield line, "cloud", gpus[row["gpu"]], "PyTorch", models[row["job"]], "fp32", row["batch_per_gpu"], 1, \
                float(row["steps_per_s"]) * int(row["batch_per_gpu"])


def pipedream():
    """Sums of layers' times, but of the input's, which is the loading of data; no update."""
    batches = {"alexnet": 256, "vgg16": 128, "resnet18": 256, "resnet50": 128, "densenet121": 64}
    for model, batch in batches.items():
        total = sum(float(row["forward_ms"]) + float(row["backward_ms"])
                    for _, row in rows_of("pipedream-profiles", model + ".nodes.csv") if row["layer"] != "Input")
        yield 2, "layers one by one", "V100 SXM2 32GB", "PyTorch", model, "fp32", batch, 1, round(1000 * batch / total, 3)


def write(name, sources):
    with open(HERE / name, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for source, rows in sources.items():
            for line, machine, gpu, framework, workload, precision, batch, accumulation, rate in rows():
                out.writerow([source, line, machine, gpu, ARCHITECTURES[gpu], framework, MODELS[workload], workload,
                              precision, batch, accumulation, float(rate)])


def main():
    write("steps.csv", {"tensorflow-benchmarks-2017": tensorflow_2017, "mxnet-perf": mxnet,
                        "nvidia-deeplearningexamples": nvidia, "oneflow-dlperf": dlperf,
                        "lambda-gpu-benchmarks": lambda_labs})
    write("steps_not_fitted.csv", {"gavel-throughputs": gavel, "pipedream-profiles": pipedream})


if __name__ == "__main__":
    main()
