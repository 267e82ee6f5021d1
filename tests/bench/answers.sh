#!/usr/bin/env bash
# Questions that people ask, each in one command, with the seconds that its answer takes:  tests/bench/answers.sh [FOLDER]
# Whole processes, once each, printed and not judged; the answers are kept in FOLDER. Exit code 3 is an answer, too: nothing meets the goal.
set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source cmake/setup.sh
need tests
build rehearse rehearse-simgrid.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
answers=${1:-$work/answers}
mkdir -p "$answers"

ask() {   # name, verb, options...: seconds; the answer goes to NAME.txt
  local name=$1 start=$EPOCHREALTIME code=0
  shift
  build/rehearse "$@" --quiet >"$answers/${name//[ \/]/-}.txt" 2>&1 || code=$?
  awk -v n="$name" -v a="$start" -v b="$EPOCHREALTIME" -v c="$code" 'BEGIN { printf "%-62s %6.1f s   exit %d\n", n, b - a, c }'
}

cat >"$work/runs.csv" <<'CSV'
gpus,batch_per_gpu,step_time_s
1,64,0.185
2,64,0.197
4,64,0.203
8,64,0.211
8,128,0.390
CSV
(cd "$work" && "$OLDPWD/build/rehearse" init catalog --kind catalog && "$OLDPWD/build/rehearse" init model.json --kind model) >"$work/init.txt"

ask "ResNet-50 in 10 h on spot" provision --model resnet50 --samples 115M --deadline 10h --market spot
ask "4 p4d.24xlarge against 8 p3dn.24xlarge for BERT-large" provision --model bert_large --samples 10M --instance p4d.24xlarge=4,p3dn.24xlarge=8
ask "1,200 images/s on 8 V100, why" diagnose --model resnet50 --instance p3.16xlarge --batch 64 --measured-samples-per-s 1200
ask "own step times to 64 GPUs" fit "$work/runs.csv" --model resnet50 --instance p3.16xlarge --gpus 64
ask "own 6 machines of 4 RTX 4090, own model" simulate --catalog "$work/catalog" --model "$work/model.json" --instance my-machine=6 --batch 64
ask "Llama 3 8B on 64 H100" provision --model llama3_8b --tokens 1T --gpus 64 --gpu H100
ask "200 Gbps instead of 100" sweep scenarios/hkbu-bert-large.json --grid /cluster/groups/0/instance/nic=100Gbps,200Gbps
ask "checkpoint interval on spot" sweep scenarios/resnet50-spot.json --grid /training/checkpoint/every=10min,30min,1h,2h,4h --runs 100
ask "a deadline with 95 %" provision --model llama3_8b --tokens 100B --gpu H100 --max-gpus 64 --deadline 30d --confidence 95%
