#!/usr/bin/env bash
# Timings, printed and not judged:  tests/bench/run.sh [RUNS]
# Whole processes, wall seconds, median of RUNS (default 7) taken in turn with an empty SimGrid program, so that ratios hold on a busy machine.
set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
runs=${1:-7}
source cmake/setup.sh
need tests
build rehearse empty_simgrid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seconds() {   # wall seconds of a command
  local start=$EPOCHREALTIME
  "$@" >/dev/null 2>&1
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.5f\n", b - a }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

compare() {   # label, command...: medians of it and of the empty program, in turn
  local label=$1
  shift
  : >"$work/own"
  : >"$work/empty"
  seconds "$@" >/dev/null
  for _ in $(seq "$runs"); do
    seconds build/tests/bench/empty_simgrid >>"$work/empty"
    seconds "$@" >>"$work/own"
  done
  local own empty
  own=$(median <"$work/own")
  empty=$(median <"$work/empty")
  awk -v l="$label" -v o="$own" -v e="$empty" 'BEGIN { printf "%-58s %8.4f s   empty %7.4f s   ratio %7.2f\n", l, o, e, o / e }'
}

resnet32="build/rehearse simulate scenarios/cm-dare.json --quiet --set /cluster/groups/1/count=8"
compare "smallest scenario" build/rehearse simulate tests/bench/smallest.json --quiet
runs=3
compare "ResNet-32, 8 workers x 1000 steps" $resnet32 --set /training/steps=8000
compare "ResNet-32, 8 workers x 100 steps, all outputs written" $resnet32 --set /training/steps=800 -o "$work/out" --remedies none
compare "study cm-dare-cluster, 72 rows, 2 processes" build/rehearse validate scenarios/studies/cm-dare-cluster.json --quiet -j 2
runs=1
sweep_1000() {
  rm -rf "$work/sweep"
  build/rehearse sweep scenarios/cm-dare.json --set /training/steps=40 --grid /cluster/groups/1/count=1..10 \
    --grid /workload/batch_per_worker=1..100 -j 2 --quiet -o "$work/sweep"
}
compare "sweep of 1000 scenarios of 40 steps, 2 processes" sweep_1000
compare "1000 runs of 200 000 steps on 64 spot GPUs, 2 processes" build/rehearse simulate scenarios/resnet50-spot.json --runs 1000 \
  --deadline 36h -j 2 --quiet
